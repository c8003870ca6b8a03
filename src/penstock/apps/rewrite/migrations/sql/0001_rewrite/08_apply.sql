select rewrite.apply_grants();
