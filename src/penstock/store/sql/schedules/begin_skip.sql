-- The tick is used up with nothing to do, and the skip is on record (Q-50).
with tick as (
    update penstock.schedules as schedule
       set last_due_at = coalesce($3::timestamptz, schedule.last_due_at), next_due_at = coalesce($4::timestamptz, schedule.next_due_at),
           missed_count = schedule.missed_count + $5::bigint, requested_at = null, requested_by = null,
           claimed_by = null, lease_expires_at = null
     where schedule.schedule = $1 and schedule.claim_seq = $2 and schedule.claimed_by is not null
    returning schedule.schedule
)
insert into penstock.skips (function, at, reason)
select $6, penstock.now(), $7 from tick
returning skip_id
