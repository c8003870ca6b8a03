-- The intent of a submission, committed before the provider hears of it: the batch, its items and one effect for each
-- item, or nothing at all when one of the claims is no longer its worker's (C-36). Says which claims are. A second try
-- after a reply that was lost finds everything written and changes nothing.
with asked as materialized (
    select a.job_id, a.claim_seq, a.attempt, a.custom_id, (a.place - 1)::integer as place
      from unnest($17::uuid[], $18::bigint[], $19::integer[], $20::text[]) with ordinality
        as a(job_id, claim_seq, attempt, custom_id, place)
), owned as materialized (
    -- Locked against cancels and the reaper until the intent is committed.
    select job.job_id, job.claim_seq
      from penstock.jobs as job
     where job.job_id = any(array(select unnest($17::uuid[])))
       and job.status = 'processing' and job.claimed_by = $16
       and coalesce((job.job_id, job.claim_seq) in (select asked.job_id, asked.claim_seq from asked), false)
     order by job.job_id
       for share
), batch as (
    insert into penstock.batches (batch_id, job_type, stage, adapter, base_url, provider, model, prompt_version,
        policy_version, execution_mode, lane, source_locale, target_locale, body_bytes, body_sha256, run_id, item_count,
        created_at)
    select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $21, cardinality($17::uuid[]),
           penstock.now()
     where (select count(*) from owned) = cardinality($17::uuid[])
    on conflict (batch_id) do nothing
    returning batch_id
), items as (
    insert into penstock.batch_items (batch_id, batch_item_index, job_id, claim_seq, attempt, custom_id)
    select batch.batch_id, asked.place, asked.job_id, asked.claim_seq, asked.attempt, asked.custom_id
      from batch cross join asked
), intents as (
    insert into penstock.effects (effect_key, kind, token, job_id, claim_seq, holds_claim, intended_at)
    select 'batch:' || asked.custom_id, 'batch_submission', replace(batch.batch_id::text, '-', ''), asked.job_id,
           asked.claim_seq, true, penstock.now()
      from batch cross join asked
    returning effect_key
), noted as (
    insert into penstock.effect_attempts (effect_key, at, action, outcome)
    select intents.effect_key, penstock.now(), 'intend', 'first' from intents
)
select penstock.now() as at, array(select owned.job_id from owned) as owned
