-- One schedule without its payload, which is its application's.
select s.schedule, s.function, s.job_type, s.cron, s.every, s.timezone, s.source, s.enabled, s.retired_at, s.next_due_at,
       s.last_due_at, s.last_ran_at, s.missed_count, s.requested_at, s.requested_by, s.claimed_by, s.claim_seq,
       s.lease_expires_at, penstock.now() as now
  from penstock.schedules as s
 where s.schedule = $1
