-- A recovery could not find out and leaves the submission to the next one. Told to a person, once, when it has been
-- open for longer than $4.
with batch as (
    update penstock.batches as b
       set state = 'uncertain', collector = null, collector_until = null,
           poll_failures = b.poll_failures + ($3::text is not null)::integer,
           last_error_code = coalesce($3, b.last_error_code)
     where b.batch_id = $1 and b.collector = $2 and b.state in ('building', 'uncertain')
    returning b.batch_id, b.job_type, b.created_at, b.last_error_code, b.item_count
)
insert into penstock.alerts (kind, severity, subject)
select 'batch_submission_unsettled', 'alert',
       jsonb_build_object('job_type', batch.job_type, 'batch_id', batch.batch_id, 'code', batch.last_error_code,
                          'jobs', batch.item_count)
  from batch
 where batch.created_at <= penstock.now() - $4::interval
   and not exists (select from penstock.alerts as a
                    where a.kind = 'batch_submission_unsettled' and a.subject ->> 'batch_id' = batch.batch_id::text)
