-- The slot of a unit: a first output is kept, a second is none (L-41, A-75).
insert into rewrite.rewrite_outputs
       (rewrite_request_id, recipient_user_id, home_id, job_id, output_locale, rewrite_response, eval_version,
        lexicon_version, provider_item_completed_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict do nothing
returning true
