-- Every schedule without its payload, which is its application's. Overdue: more than a minute past its time, and not running.
select s.schedule, s.function, s.job_type, s.cron, s.every, s.timezone, s.source, s.enabled, s.retired_at, s.next_due_at,
       s.last_due_at, s.last_ran_at, s.missed_count, s.requested_at, s.requested_by, s.claimed_by, s.claim_seq,
       s.lease_expires_at,
       s.enabled and s.retired_at is null as active,
       s.enabled and s.retired_at is null and s.next_due_at < penstock.now() - interval '1 minute'
           and coalesce(s.lease_expires_at, '-infinity') <= penstock.now() as overdue,
       coalesce(s.lease_expires_at, '-infinity') > penstock.now() as running
  from penstock.schedules as s
 order by s.schedule
