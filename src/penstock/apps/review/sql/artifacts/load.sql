select revision, facts, diff, skipped, part_tokens, parts, fetched_at from review.artifacts where review_id = $1
