-- One declared schedule. The operators' switch is never touched; a schedule that had been retired comes back.
-- A changed cadence gets its new due time; an unchanged one keeps what it has, so that nothing due is forgotten.
insert into penstock.schedules as known (schedule, function, job_type, payload, cron, every, timezone, source, next_due_at)
values ($1, $2, $3, $4::jsonb, $5, $6, $7, $8, $9)
on conflict (schedule) do update
   set function = excluded.function, job_type = excluded.job_type, payload = excluded.payload, cron = excluded.cron,
       every = excluded.every, timezone = excluded.timezone, source = excluded.source, retired_at = null,
       next_due_at = case
           when known.retired_at is null and known.cron is not distinct from excluded.cron
                and known.every is not distinct from excluded.every and known.timezone = excluded.timezone
           then known.next_due_at else excluded.next_due_at end
 where (known.function, known.job_type, known.payload, known.cron, known.every, known.timezone, known.source)
       is distinct from
       (excluded.function, excluded.job_type, excluded.payload, excluded.cron, excluded.every, excluded.timezone, excluded.source)
    or known.retired_at is not null
