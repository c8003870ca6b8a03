-- Fetched once and for all: a second fetch of the same review changes nothing.
insert into review.artifacts (review_id, revision, facts, diff, skipped, part_tokens, parts)
values ($1, $2, $3::jsonb, $4, $5::jsonb, $6, $7)
on conflict (review_id) do nothing
returning true
