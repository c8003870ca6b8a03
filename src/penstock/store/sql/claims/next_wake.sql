-- When this worker is needed next, as spans by the database's clock: the next job to fall due, the next lease to
-- expire, the next gate to open, the next suspect that nobody has set aside (C-29). Null: nothing to wait for but pokes and the poll. A lease that has expired and
-- cannot be reaped yet (its row is locked just now) is looked at again soon, not at once.
select (select min(due.run_at) - penstock.now()
          from unnest($1::text[]) as type(job_type)
         cross join lateral (
               select j.run_at from penstock.jobs as j
                where j.job_type = type.job_type and j.status = 'queued' and not j.ready and not j.suspect
                order by j.run_at limit 1) as due) as next_due,
       (select greatest(j.lease_expires_at - penstock.now(), interval '100 milliseconds')
          from penstock.jobs as j
         where j.status = 'processing' and j.lease_expires_at is not null
           and not (j.lease_expires_at < penstock.now() and exists (
                    select from penstock.effects e
                     where e.job_id = j.job_id and e.claim_seq = j.claim_seq and e.holds_claim
                       and e.state in ('intended', 'uncertain')))
         order by j.lease_expires_at limit 1) as next_expiry,
       (select min(gate.opens) from (
               -- Exact for a breaker and a rate. Room under a running limit comes when some worker's job ends: the one
               -- that ends it claims at once, the others look every second.
               select case
                        when t.paused_at is not null then null
                        when t.breaker <> 'closed' then
                             greatest(t.breaker_probe_at - penstock.now(), interval '50 milliseconds')
                        else coalesce(
                             (select r.opens_at - penstock.now() from penstock.rates as r
                               where t.rate_count is not null and r.job_type = t.job_type and r.limit_key = ''
                                 and r.opens_at > penstock.now()),
                             least(interval '1 second',
                                   (select min(r.opens_at) - penstock.now() from penstock.rates as r
                                     where t.key_rate_count is not null and r.job_type = t.job_type
                                       and r.opens_at > penstock.now())))
                      end as opens
                 from penstock.types as t
                where t.job_type = any($1::text[]) and t.gated
                  -- Ordered as the index is: for a bare EXISTS the planner may walk over the whole table.
                  and ((select true from penstock.jobs as j
                         where j.job_type = t.job_type and j.status = 'queued' and j.ready
                         order by j.priority, j.created_at, j.job_id limit 1)
                       or (select true from penstock.jobs as j
                            where j.job_type = t.job_type and j.status = 'queued' and j.suspect and not j.ready
                            order by j.priority, j.created_at, j.job_id limit 1))) as gate) as next_gate,
       -- Looked at again soon, not at once: another worker may be about to set it aside.
       (select greatest(min(waiting.until) - penstock.now(), interval '100 milliseconds')
          from penstock.types as t
         cross join lateral (
               select coalesce(j.reserved_until, penstock.now()) as until from penstock.jobs as j
                where j.job_type = t.job_type and j.status = 'queued' and j.suspect and not j.ready
                order by j.priority, j.created_at, j.job_id limit 100) as waiting
         where t.job_type = any($1::text[]) and not t.gated
        having count(*) > 0) as next_suspect
