-- Types with due jobs that no live worker serves. Scheduled types run by their schedules, paused ones not at all.
select t.job_type
  from penstock.types as t
 where t.dispatch = 'notify' and t.paused_at is null
   and exists (select from penstock.jobs as j where j.job_type = t.job_type and j.status = 'queued' and j.ready)
   and not exists (select from penstock.workers as w
                    where w.stopped_at is null and w.heartbeat_at > penstock.now() - $1::interval
                      and t.job_type = any(w.types))
 order by 1
