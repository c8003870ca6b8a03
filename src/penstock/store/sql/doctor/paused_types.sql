select t.job_type, coalesce(t.paused_by, 'somebody') as who, t.paused_at,
       exists (select from penstock.jobs as j where j.job_type = t.job_type and j.status = 'queued' and j.ready) as waiting
  from penstock.types as t
 where t.paused_at is not null
 order by 1
