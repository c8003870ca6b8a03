select vault.apply_grants();
