-- moves: processing -> completed
-- A set of claims ends well. Pairs are matched exactly: a claim that lost its lease updates nothing (C-31).
-- array(...) keeps the planner on the primary key, whatever the size of the set; coalesce keeps it from making
-- a join of the pairs, which it would get wrong on a table that it last analysed when it was small.
-- A row that somebody's transaction holds fails the statement soon (here and in fail, requeue and cancel): the recorder
-- then divides the set, and only that job waits.
-- $4 are records of runs that are over: they cost no round trip and no commit of their own (C-55).
with done as (
    update penstock.jobs as job
       set status = 'completed', finished_at = (select penstock.now()), updated_at = (select penstock.now()),
           lease_expires_at = null
     where (select set_config('lock_timeout', $5, true)) is not null
       and job.job_id = any(array(select unnest($1::uuid[])))
       and job.status = 'processing'
       and job.claimed_by = $3
       and coalesce((job.job_id, job.claim_seq) in (select pair.job_id, pair.claim_seq
                      from unnest($1::uuid[], $2::bigint[]) as pair(job_id, claim_seq)), false)
    returning 1
)
select (select count(*) from done), case when $4::jsonb is not null then penstock.save_runs($4::jsonb) end
