-- The tick is used up and its run has a record, or neither. A scheduler that lost its claim begins nothing.
with tick as (
    update penstock.schedules as schedule
       set last_due_at = coalesce($3::timestamptz, schedule.last_due_at), next_due_at = coalesce($4::timestamptz, schedule.next_due_at),
           missed_count = schedule.missed_count + $5::bigint, last_ran_at = penstock.now(),
           requested_at = null, requested_by = null
     where schedule.schedule = $1 and schedule.claim_seq = $2 and schedule.claimed_by is not null
    returning schedule.schedule
)
insert into penstock.runs (run_id, function, trigger, worker_id, profile, schedule, due_at, started_at,
                           max_jobs_per_run, max_runtime_seconds)
select $6, $7, $8, $9, $10, tick.schedule, $3, penstock.now(), $11, $12
  from tick
    on conflict do nothing
returning started_at
