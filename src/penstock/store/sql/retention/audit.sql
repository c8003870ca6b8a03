-- Audit rows past their time whose job is gone.
select e.event_id
  from penstock.job_events as e
 where e.at < penstock.now() - $1::interval
   and not exists (select from penstock.jobs as j where j.job_id = e.job_id)
 limit $2
