-- The intent of an effect, committed before the outside world is touched. The job's row is locked against the reaper for
-- this statement, so that only a claim that still owns its job can intend.
with owner as (
    select j.job_id from penstock.jobs as j
     where j.job_id = $1 and j.claim_seq = $2 and j.claimed_by = $3 and j.status = 'processing'
       for share
), intent as (
    insert into penstock.effects as e (effect_key, kind, token, job_id, claim_seq, holds_claim, intended_at)
    select $4, $5, $6, owner.job_id, $2, $7, penstock.now() from owner
    on conflict (effect_key) do update
       set job_id = case when e.state = 'done' then e.job_id else excluded.job_id end,
           claim_seq = case when e.state = 'done' then e.claim_seq else excluded.claim_seq end,
           perform_count = e.perform_count + case when e.state = 'done' then 0 else 1 end,
           intended_at = case when e.state = 'done' then e.intended_at else excluded.intended_at end,
           state = case when e.state = 'done' then 'done' else 'intended' end
    returning e.effect_key, e.state = 'done' as done, e.perform_count, e.result::text as result
), noted as (
    insert into penstock.effect_attempts (effect_key, at, action, outcome)
    select intent.effect_key, penstock.now(), 'perform', 'intended' from intent where not intent.done
)
select intent.done, intent.perform_count, intent.result from intent
