-- The dead letter of a job that has just failed. A replay's failure reopens its original's row; the same
-- non-retryable class again is for engineering (E-45, C-51).
create function penstock.bury(
    p_job_id uuid, p_replay_of uuid, p_type text, p_stage text, p_class text, p_retryable boolean, p_reason text,
    p_stack text, p_context jsonb, p_attempts integer, p_first timestamptz, p_alert text) returns void
    language plpgsql volatile
as $$
declare
    at timestamptz := penstock.now();
    letter record;
    again boolean;
begin
    select d.dead_letter_id, d.error_class, d.retryable into letter
      from penstock.dead_letters d where d.job_id = coalesce(p_replay_of, p_job_id) for update;
    if found then
        again := letter.error_class = p_class and not p_retryable;
        update penstock.dead_letters d
           set last_job_id = p_job_id, stage = p_stage, error_class = p_class, retryable = p_retryable, reason = p_reason,
               last_stack = p_stack, sanitized_context = p_context, attempts = p_attempts,
               first_failure_at = least(coalesce(p_first, at), at), last_failure_at = at,
               state = 'open', cause = null, remediation = null, ticket = null, replay_safe = null, closed_at = null,
               escalated_at = case when again or p_alert = 'escalation' then at else d.escalated_at end
         where d.dead_letter_id = letter.dead_letter_id;
        insert into penstock.dead_letter_events (dead_letter_id, step, operator, detail)
        values (letter.dead_letter_id, 'reopened', 'penstock', jsonb_build_object('job_id', p_job_id, 'error_class', p_class));
        if again then
            insert into penstock.alerts (kind, severity, subject)
            values ('replay_failed_again', 'escalation',
                    jsonb_build_object('dead_letter_id', letter.dead_letter_id, 'job_id', p_job_id, 'code', p_class));
        end if;
    else
        insert into penstock.dead_letters (dead_letter_id, job_id, last_job_id, job_type, stage, error_class, retryable, reason,
            last_stack, sanitized_context, attempts, first_failure_at, last_failure_at, created_at, escalated_at)
        values (penstock.uuid7(), coalesce(p_replay_of, p_job_id), p_job_id, p_type, p_stage, p_class, p_retryable, p_reason,
            p_stack, p_context, p_attempts, least(coalesce(p_first, at), at), at, at,
            case when p_alert = 'escalation' then at end);
    end if;
    if p_alert is not null then
        insert into penstock.alerts (kind, severity, subject)
        values (case p_alert when 'page' then 'runtime_bug' when 'alert' then 'effect_uncertain' else 'unexpected_reject' end, p_alert,
                jsonb_build_object('job_id', p_job_id, 'job_type', p_type, 'stage', p_stage, 'code', p_class));
    end if;
end
$$;

-- A trigger of the application refused the end of a job (C-62). Told once an hour and type; the job is tried again.
create function penstock.note_refusal(p_type text, p_state text) returns void
    language sql volatile
as $$
    insert into penstock.alerts (kind, severity, subject)
    select 'end_refused', 'alert', jsonb_build_object('job_type', p_type, 'sqlstate', p_state)
     where not exists (select from penstock.alerts a
                        where a.kind = 'end_refused' and a.subject ->> 'job_type' = p_type and a.acknowledged_at is null
                          and a.created_at > penstock.now() - interval '1 hour')
$$;

-- The reaper: expired claims go back to the queue, or end when their budget is spent (C-13). Jobs that wait on an
-- open intent of their own claim are left to the recovery of that intent (C-36). A job whose end is refused by a
-- trigger of the application, or that trigger waits for somebody's lock, waits a minute for the next try and holds up
-- nobody.
create function penstock.reap(p_limit integer) returns table (job_id uuid, job_type varchar, outcome text)
    language plpgsql volatile set lock_timeout = '1s'
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
                   ready = true, run_at = case when ends then j.run_at else at end, updated_at = at,
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
