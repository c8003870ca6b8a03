-- The tick is used up and its job is in the queue, or neither: exactly one job per tick, whoever dies when.
with tick as (
    update penstock.schedules as schedule
       set last_due_at = coalesce($3::timestamptz, schedule.last_due_at), next_due_at = coalesce($4::timestamptz, schedule.next_due_at),
           missed_count = schedule.missed_count + $5::bigint, last_ran_at = penstock.now(),
           requested_at = null, requested_by = null, claimed_by = null, lease_expires_at = null
     where schedule.schedule = $1 and schedule.claim_seq = $2 and schedule.claimed_by is not null
    returning schedule.job_type, schedule.payload
)
select put[1]::uuid as job_id, put[2]::boolean as created, put[3] as channel,
       penstock.raise_refusal(put[4], tick.job_type)
  from tick, penstock.put_job(tick.job_type, tick.payload::text, $6, null, null, null, null, $7, false, null) as put
