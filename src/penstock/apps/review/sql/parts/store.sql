-- An answered part stays as it was answered first.
insert into review.parts (review_id, part, findings, dropped, input_tokens, output_tokens)
values ($1, $2, $3::jsonb, $4, $5, $6)
on conflict (review_id, part) do nothing
returning true
