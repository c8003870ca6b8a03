-- Every function that runs as the owner names pg_temp last in its path (penstock.pin_paths, by way of the grants).
select vault.apply_grants();
