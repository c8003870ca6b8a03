-- A recovery takes over submissions of a type that nobody alive has in hand, for a time: two recoveries never work on
-- one, and the submitter that began it may no longer mark it.
with unsettled as (
    select b.batch_id
      from penstock.batches as b
     where b.job_type = $1 and b.state in ('building', 'uncertain')
       and (b.collector_until is null or b.collector_until <= penstock.now())
       and not exists (select from penstock.batch_items as i
                         join penstock.jobs as j on j.job_id = i.job_id and j.claim_seq = i.claim_seq
                        where i.batch_id = b.batch_id and j.status = 'processing' and j.lease_expires_at > penstock.now())
     order by b.created_at
     limit $4
       for update of b skip locked
), adopted as (
    update penstock.batches as b
       set collector = $2, collector_until = penstock.now() + $3::interval
      from unsettled
     where b.batch_id = unsettled.batch_id
    returning b.batch_id, b.stage, b.adapter, b.base_url, b.provider, b.model, b.item_count, b.created_at
), intents as (
    update penstock.effects as e
       set adopted_by = $2, adopted_until = penstock.now() + $3::interval
     where e.effect_key = any(array(
           select 'batch:' || i.custom_id from adopted join penstock.batch_items as i on i.batch_id = adopted.batch_id))
       and e.state in ('intended', 'uncertain')
)
select adopted.batch_id, adopted.adapter, adopted.base_url, adopted.provider, adopted.model, adopted.item_count,
       adopted.created_at
  from adopted order by adopted.created_at
