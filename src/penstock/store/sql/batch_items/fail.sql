-- moves: batch_submitted -> failed
-- Items whose jobs end for good, each with its dead letter in the same statement (C-02).
with ended as materialized (
    select * from unnest($2::integer[], $3::uuid[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::bigint[],
                         $8::bigint[], $10::text[], $11::text[], $12::boolean[], $13::text[], $14::text[],
                         $15::jsonb[], $16::integer[], $17::text[])
        as e(batch_item_index, job_id, claim_seq, provider_at, input_tokens, output_tokens, cost_micros, code,
             message, retryable, reason, stack, context, attempts, alert)
), moved as (
    update penstock.jobs as job
       set status = 'failed', finished_at = penstock.now(), updated_at = penstock.now(),
           attempt_count = job.attempt_count + 1, first_failure_at = coalesce(job.first_failure_at, penstock.now()),
           last_error_at = penstock.now(), last_error_code = ended.code, last_error_message = ended.message
      from ended
      join penstock.batch_items as item
        on item.batch_id = $1 and item.batch_item_index = ended.batch_item_index and item.state = 'open'
     where job.job_id = any(array(select unnest($3::uuid[])))
       and ended.job_id = job.job_id and ended.claim_seq = job.claim_seq and job.status = 'batch_submitted'
    returning ended.batch_item_index, job.job_id, job.stage, job.staged, job.job_type, job.replay_of_job_id,
              job.first_failure_at, ended.code, ended.retryable, ended.reason, ended.stack, ended.context, ended.attempts,
              ended.alert
), charged_stages as (
    insert into penstock.stages as s (job_id, stage, attempts, first_failure_at, last_failure_at)
    select moved.job_id, moved.stage, 1, penstock.now(), penstock.now() from moved where moved.staged
    on conflict (job_id, stage) do update
       set attempts = s.attempts + 1, last_failure_at = excluded.last_failure_at,
           first_failure_at = coalesce(s.first_failure_at, excluded.first_failure_at)
), buried as (
    select penstock.bury(moved.job_id, moved.replay_of_job_id, moved.job_type, moved.stage, moved.code, moved.retryable,
                         moved.reason, moved.stack, moved.context, moved.attempts,
                         coalesce((select s.first_failure_at from penstock.stages as s
                                    where moved.staged and s.job_id = moved.job_id and s.stage = moved.stage),
                                  case when moved.staged then penstock.now() else moved.first_failure_at end),
                         moved.alert)::text as letter
      from moved
)
select settled.batch_item_index, settled.state, settled.paused, (select count(buried.letter) from buried) as buried
  from (select array_agg(ended.batch_item_index) as indexes,
               array_agg(case when moved.batch_item_index is null then 'late' else 'failed' end) as states,
               array_agg(ended.code::text) as codes, array_agg(ended.provider_at) as times,
               array_agg(ended.input_tokens) as input, array_agg(ended.output_tokens) as output,
               array_agg(ended.cost_micros) as cost
          from ended left join moved on moved.batch_item_index = ended.batch_item_index) as all_of
 cross join lateral penstock.settle_items($1, $9, all_of.indexes, all_of.states, all_of.codes, all_of.times,
                                          all_of.input, all_of.output, all_of.cost) as settled
