-- moves: batch_submitted -> completed
-- Items that were accepted, on the last stage of their jobs. Each names its job and its claim; one whose job no longer
-- waits for it is late, and only its cost counts. Items that somebody has settled before stay as they are.
with ended as materialized (
    select * from unnest($2::integer[], $3::uuid[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::bigint[],
                         $8::bigint[])
        as e(batch_item_index, job_id, claim_seq, provider_at, input_tokens, output_tokens, cost_micros)
), moved as (
    update penstock.jobs as job
       set status = 'completed', finished_at = penstock.now(), updated_at = penstock.now()
      from ended
      join penstock.batch_items as item
        on item.batch_id = $1 and item.batch_item_index = ended.batch_item_index and item.state = 'open'
     where job.job_id = any(array(select unnest($3::uuid[])))
       and ended.job_id = job.job_id and ended.claim_seq = job.claim_seq and job.status = 'batch_submitted'
    returning ended.batch_item_index
)
select settled.batch_item_index, settled.state, settled.paused
  from (select array_agg(ended.batch_item_index) as indexes,
               array_agg(case when moved.batch_item_index is null then 'late' else 'completed' end) as states,
               array_agg(null::text) as codes, array_agg(ended.provider_at) as times,
               array_agg(ended.input_tokens) as input, array_agg(ended.output_tokens) as output,
               array_agg(ended.cost_micros) as cost
          from ended left join moved on moved.batch_item_index = ended.batch_item_index) as all_of
 cross join lateral penstock.settle_items($1, $9, all_of.indexes, all_of.states, all_of.codes, all_of.times,
                                          all_of.input, all_of.output, all_of.cost) as settled
