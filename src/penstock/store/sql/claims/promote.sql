-- Jobs that have fallen due join the ready index, in sets (C-59). Suspects do not: they run alone (C-13).
update penstock.jobs as job
   set ready = true, updated_at = (select penstock.now())
 where job.job_id = any(array(
       select due.job_id
         from unnest($1::text[]) as type(job_type)
        cross join lateral (
              select j.job_id from penstock.jobs as j
               where j.job_type = type.job_type and j.status = 'queued' and not j.ready
                 and j.run_at <= penstock.now() and not j.suspect
               order by j.run_at
               limit $2
                 for update skip locked) as due))
   and job.status = 'queued'
