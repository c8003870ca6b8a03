select review.apply_grants();
