-- How often jobs went back uncharged from a batch that was refused as a whole without a reason (C-37 e). The count is
-- what ends it: jobs that were refused together are parted, and from the fourth time on the refusal counts.
select item.job_id, count(*)::integer
  from penstock.batch_items as item
 where item.job_id = any($1::uuid[]) and item.state = 'requeued' and item.code = 'BATCH_REFUSED'
 group by item.job_id
