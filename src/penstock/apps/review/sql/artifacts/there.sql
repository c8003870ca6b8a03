select exists (select from review.artifacts where review_id = $1)
