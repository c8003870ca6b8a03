-- moves: batch_submitted -> queued
-- Items without an answer that counts, whose jobs try again: charged where the attempt was made and failed, uncharged
-- where the provider never began (C-37).
with ended as materialized (
    select * from unnest($2::integer[], $3::uuid[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::bigint[],
                         $8::bigint[], $10::interval[], $11::boolean[], $12::text[], $13::text[])
        as e(batch_item_index, job_id, claim_seq, provider_at, input_tokens, output_tokens, cost_micros, delay,
             charged, code, message)
), moved as (
    update penstock.jobs as job
       set status = 'queued', ready = ended.delay <= interval '0', run_at = penstock.now() + ended.delay,
           updated_at = penstock.now(), claimed_by = null, claimed_at = null,
           attempt_count = job.attempt_count + ended.charged::integer,
           first_failure_at = case when ended.charged then coalesce(job.first_failure_at, penstock.now())
                                   else job.first_failure_at end,
           last_error_at = penstock.now(), last_error_code = ended.code, last_error_message = ended.message
      from ended
      join penstock.batch_items as item
        on item.batch_id = $1 and item.batch_item_index = ended.batch_item_index and item.state = 'open'
     where job.job_id = any(array(select unnest($3::uuid[])))
       and ended.job_id = job.job_id and ended.claim_seq = job.claim_seq and job.status = 'batch_submitted'
    returning ended.batch_item_index, job.job_id, job.stage, job.staged, ended.charged
), charged_stages as (
    insert into penstock.stages as s (job_id, stage, attempts, first_failure_at, last_failure_at)
    select moved.job_id, moved.stage, 1, penstock.now(), penstock.now() from moved where moved.staged and moved.charged
    on conflict (job_id, stage) do update
       set attempts = s.attempts + 1, last_failure_at = excluded.last_failure_at,
           first_failure_at = coalesce(s.first_failure_at, excluded.first_failure_at)
)
select settled.batch_item_index, settled.state, settled.paused
  from (select array_agg(ended.batch_item_index) as indexes,
               array_agg(case when moved.batch_item_index is null then 'late' else case when ended.charged then 'retried' else 'requeued' end end) as states,
               array_agg(ended.code::text) as codes, array_agg(ended.provider_at) as times,
               array_agg(ended.input_tokens) as input, array_agg(ended.output_tokens) as output,
               array_agg(ended.cost_micros) as cost
          from ended left join moved on moved.batch_item_index = ended.batch_item_index) as all_of
 cross join lateral penstock.settle_items($1, $9, all_of.indexes, all_of.states, all_of.codes, all_of.times,
                                          all_of.input, all_of.output, all_of.cost) as settled
