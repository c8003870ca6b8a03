-- Batches, the newest first, with the counts of their items and their ages.
select o.batch_id, o.state, o.job_type, o.provider, o.model, o.provider_batch_id, o.provider_status, o.item_count,
       o.open_items, o.completed_items, o.retried_items, o.failed_items, o.late_items, o.cost_micros, o.created_at,
       o.submitted_at, o.deadline_at, o.collected_at, o.cancel_asked_at, o.missing_since, o.last_error_code,
       coalesce(o.collected_at, penstock.now()) - o.created_at as age,
       case when o.state = 'submitted' then o.deadline_at - penstock.now() end as time_left
  from penstock.batch_overview as o
 where ($1::text is null or o.job_type = $1)
   and ($2::text is null or o.state = $2 or ($2 = 'open' and o.state in ('building', 'uncertain', 'submitted')))
 order by o.created_at desc
 limit $3
