select vault.take_over();
select vault.apply_grants();
