-- The reaper: expired claims go back to the queue, or end when their budget is spent (C-13). Jobs that wait on an
-- open intent of their own claim are left to the recovery of that intent (C-36). A job whose end is refused by a
-- trigger of the application, or that trigger waits for somebody's lock, waits a minute for the next try and holds up
-- nobody. Which of the jobs that a process held has ended it is not known: all of them come back as suspects.
create or replace function penstock.reap(p_limit integer) returns table (job_id uuid, job_type varchar, outcome text)
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
    at timestamptz := penstock.now();
    job record;
    attempts integer;
    first_failure timestamptz;
    ends boolean;
begin
    for job in
        select j.*, coalesce(t.stale_counts_attempt, true) as counts, coalesce(t.max_reclaims, 5) as max_reclaims
          from penstock.jobs j
          left join penstock.types t on t.job_type = j.job_type
         where j.status = 'processing' and j.lease_expires_at < at
           and not exists (select from penstock.effects e
                            where e.job_id = j.job_id and e.claim_seq = j.claim_seq and e.holds_claim
                              and e.state in ('intended', 'uncertain'))
         order by j.lease_expires_at
         limit p_limit
           for update of j skip locked
    loop
        attempts := job.attempt_count;
        first_failure := job.first_failure_at;
        if job.staged then
            select coalesce(max(s.attempts), 0), min(s.first_failure_at) into attempts, first_failure
              from penstock.stages s where s.job_id = job.job_id and s.stage = job.stage;
        end if;
        attempts := attempts + job.counts::integer;
        ends := case when job.counts then attempts >= job.max_attempts else job.reclaim_count >= job.max_reclaims end;
        begin
            if job.counts and job.staged then
                insert into penstock.stages (job_id, stage, attempts, first_failure_at, last_failure_at)
                values (job.job_id, job.stage, 1, at, at)
                on conflict (job_id, stage) do update
                   set attempts = stages.attempts + 1, last_failure_at = at,
                       first_failure_at = coalesce(stages.first_failure_at, at);
            end if;
            update penstock.jobs j
               set status = case when ends then 'failed' else 'queued' end,
                   finished_at = case when ends then at end,
                   attempt_count = j.attempt_count + case when job.counts then 1 else 0 end,
                   reclaim_count = least(j.reclaim_count + 1, 32767),
                   ready = ends, suspect = not ends, reserved_until = null,
                   run_at = case when ends then j.run_at else at end, updated_at = at,
                   lease_expires_at = null, claimed_by = null, claimed_at = null,
                   first_failure_at = coalesce(j.first_failure_at, at),
                   last_error_at = at, last_error_code = 'LEASE_EXPIRED', last_error_message = 'stale_claim_requeued'
             where j.job_id = job.job_id;
            if ends then
                perform penstock.bury(job.job_id, job.replay_of_job_id, job.job_type, job.stage, 'LEASE_EXPIRED', true,
                    'budget_exhausted', 'LEASE_EXPIRED: the worker ' || job.claimed_by || ' stopped reporting; there is no stack',
                    jsonb_build_object(
                        'job_id', job.job_id, 'run_id', job.run_id, 'worker_id', job.claimed_by, 'stage', job.stage,
                        'attempt_count', attempts, 'max_attempts', job.max_attempts, 'reclaim_count', job.reclaim_count + 1,
                        'upstream_status', null,
                        'payload_hash', left(encode(sha256(convert_to(job.payload::text, 'UTF8')), 'hex'), 16)),
                    attempts, first_failure, null);
            end if;
        exception when others then
            perform penstock.note_refusal(job.job_type, sqlstate);
            update penstock.jobs j set lease_expires_at = at + interval '1 minute', updated_at = at
             where j.job_id = job.job_id;
            continue;
        end;
        job_id := job.job_id;
        job_type := job.job_type;
        outcome := case when ends then 'failed' else 'queued' end;
        return next;
    end loop;
end
$$;
