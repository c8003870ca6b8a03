-- Take what is due or asked for, of the functions that this scheduler has and of all schedules that enqueue.
-- The lease covers the time until the tick is used up, and then the run, so that a schedule does not overlap itself.
update penstock.schedules as schedule
   set claimed_by = $1, claim_seq = schedule.claim_seq + 1, lease_expires_at = penstock.now() + $2::interval
 where schedule.schedule = any(array(
       select due.schedule
         from penstock.schedules as due
        where (due.function is null or due.function = any($3::text[]))
          and (due.lease_expires_at is null or due.lease_expires_at <= penstock.now())
          and (due.requested_at is not null
               or (due.enabled and due.retired_at is null and due.next_due_at <= penstock.now()))
        order by due.next_due_at
          for update skip locked))
returning schedule.*, penstock.now() as now
