select penstock.apply_grants();
