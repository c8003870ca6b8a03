-- How long until a scheduler with these functions is needed; null: not before somebody changes a schedule.
select min(greatest(
           case when schedule.requested_at is not null then penstock.now() else schedule.next_due_at end,
           schedule.lease_expires_at)) - penstock.now()
  from penstock.schedules as schedule
 where (schedule.function is null or schedule.function = any($1::text[]))
   and (schedule.requested_at is not null or (schedule.enabled and schedule.retired_at is null))
