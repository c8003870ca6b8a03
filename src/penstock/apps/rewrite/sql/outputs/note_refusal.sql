-- An evaluation refused an answer: which versions, which code, and nothing of the answer (A-81).
insert into rewrite.evaluation_failures (job_id, attempt, home_id, code, eval_version, lexicon_version)
values ($1, $2, $3, $4, $5, $6)
on conflict do nothing
