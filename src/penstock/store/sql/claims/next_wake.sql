-- When this worker is needed next, as spans by the database's clock: the next job to fall due, the next lease to
-- expire, the next gate to open (C-29). Null: nothing to wait for but pokes and the poll.
select (select min(due.run_at) - penstock.now()
          from unnest($1::text[]) as type(job_type)
         cross join lateral (
               select j.run_at from penstock.jobs as j
                where j.job_type = type.job_type and j.status = 'queued' and not j.ready
                order by j.run_at limit 1) as due) as next_due,
       (select j.lease_expires_at - penstock.now()
          from penstock.jobs as j
         where j.status = 'processing' and j.lease_expires_at is not null
         order by j.lease_expires_at limit 1) as next_expiry,
       (select min(gate.opens) from (
               select case
                        when t.paused_at is not null then null
                        when t.breaker <> 'closed' then t.breaker_probe_at - penstock.now()
                        when t.rate_count is not null or t.key_rate_count is not null then
                             greatest(interval '50 milliseconds', least(
                               t.rate_period / t.rate_count, t.key_rate_period / t.key_rate_count))
                      end as opens
                 from penstock.types as t
                where t.job_type = any($1::text[]) and t.gated
                  and exists (select from penstock.jobs as j
                               where j.job_type = t.job_type and j.status = 'queued' and j.ready)) as gate) as next_gate
