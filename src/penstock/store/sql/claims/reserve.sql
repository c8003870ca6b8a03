-- Sets a suspect aside for a worker that will run it alone, while the worker lets go of what it holds. The job stays
-- queued: if the worker's process ends meanwhile, nobody is charged and the reservation runs out. $2: for how long; $3:
-- only suspects that have waited so long since they became ones; $4: the worker; $5: what it still runs, without knowing
-- that it has lost it. A type whose gate is shut has none.
update penstock.jobs as job
   set reserved_until = penstock.now() + $2::interval, updated_at = penstock.now()
 where job.job_id = (
       select due.job_id
         from unnest($1::text[]) as served(job_type)
         join penstock.types as type on type.job_type = served.job_type
        cross join lateral (
              select j.job_id, j.priority, j.created_at from penstock.jobs as j
               where j.job_type = type.job_type and j.status = 'queued' and j.suspect and not j.ready
                 and coalesce(j.reserved_until <= penstock.now(), true)
                 and not j.job_id = any($5::uuid[])
                 and not j.run_at between penstock.now() - $3::interval and penstock.now()
               order by j.priority, j.created_at, j.job_id
               limit 1
                 for update skip locked) as due
        where not type.gated or penstock.gate_room(type, 1, 0, $4, penstock.now()) > 0
        order by due.priority, due.created_at, due.job_id
        limit 1)
returning job.job_id, job.job_type, job.reserved_until
