-- Claim of a gated type: one with a pause, a breaker that is not closed, or limits (C-64). Claims of one such type
-- wait for each other on its row, so the counts they see are true. Limits hold across all workers.
create function penstock.claim_gated(
    p_type text, p_worker text, p_lease interval, p_limit integer, p_run uuid)
    returns setof penstock.jobs
    language plpgsql volatile
as $$
declare
    type penstock.types;
    at timestamptz := penstock.now();
    room integer := p_limit;
    free integer;
    taken uuid[];
    picked uuid[] := '{}';
    tokens double precision;
    seen integer := 0;
    this_key text;
begin
    select * into type from penstock.types t where t.job_type = p_type for update;
    if not found or type.paused_at is not null then
        return;
    end if;
    if type.breaker <> 'closed' then
        -- Open: wait for the probe time. Half open with a probe under way: wait for that one, or for its time to pass.
        if type.breaker_probe_at > at then
            return;
        end if;
        room := 1;
    end if;
    if type.max_running is not null then
        select type.max_running - count(*) into free
          from penstock.jobs j where j.status = 'processing' and j.lease_expires_at is not null and j.job_type = p_type;
        room := least(room, free);
    end if;
    if type.rate_count is not null then
        tokens := penstock.rate_tokens(p_type, '', type.rate_count, type.rate_period, at);
        room := least(room, floor(tokens)::integer);
    end if;
    if room <= 0 then
        return;
    end if;

    if type.key_max_running is null and type.key_rate_count is null then
        picked := array(
            select j.job_id from penstock.jobs j
             where j.job_type = p_type and j.status = 'queued' and j.ready
             order by j.priority, j.created_at, j.job_id limit room for update skip locked);
    else
        -- Jump from key to key in the index: a key with a long backlog costs the others one step, not its length.
        picked := array(
            select j.job_id from penstock.jobs j
             where j.job_type = p_type and j.status = 'queued' and j.ready and j.limit_key is null
             order by j.priority, j.created_at, j.job_id limit room for update skip locked);
        this_key := type.key_cursor;
        while cardinality(picked) < room and seen < 1000 loop
            select min(j.limit_key) into this_key from penstock.jobs j
             where j.job_type = p_type and j.status = 'queued' and j.ready and j.limit_key is not null
               and (this_key is null or j.limit_key > this_key);
            exit when this_key is null;
            seen := seen + 1;
            free := room - cardinality(picked);
            if type.key_max_running is not null then
                select least(free, type.key_max_running - count(*)) into free
                  from penstock.jobs j
                 where j.job_type = p_type and j.status = 'processing' and j.limit_key = this_key;
            end if;
            if type.key_rate_count is not null then
                free := least(free, floor(penstock.rate_tokens(
                    p_type, this_key, type.key_rate_count, type.key_rate_period, at))::integer);
            end if;
            continue when free <= 0;
            taken := array(
                select j.job_id from penstock.jobs j
                 where j.job_type = p_type and j.status = 'queued' and j.ready and j.limit_key = this_key
                 order by j.priority, j.created_at, j.job_id limit free for update skip locked);
            if type.key_rate_count is not null and cardinality(taken) > 0 then
                perform penstock.spend_tokens(p_type, this_key, cardinality(taken),
                                              type.key_rate_count, type.key_rate_period, at);
            end if;
            picked := picked || taken;
        end loop;
        -- The next claim goes on behind the last key, so that every key gets its turn.
        update penstock.types t set key_cursor = this_key
         where t.job_type = p_type and t.key_cursor is distinct from this_key;
    end if;
    if cardinality(picked) = 0 then
        return;
    end if;
    if type.rate_count is not null then
        perform penstock.spend_tokens(p_type, '', cardinality(picked), type.rate_count, type.rate_period, at);
    end if;
    if type.breaker <> 'closed' then
        update penstock.types t set breaker = 'half_open', breaker_probe_at = at + t.breaker_cooldown
         where t.job_type = p_type;
    end if;
    return query
        update penstock.jobs j
           set status = 'processing', claim_seq = j.claim_seq + 1, claimed_by = p_worker, claimed_at = at, updated_at = at,
               lease_expires_at = at + p_lease, run_id = p_run
         where j.job_id = any(picked)
        returning j.*;
end
$$;

create function penstock.rate_tokens(p_type text, p_key text, p_count integer, p_period interval, p_at timestamptz)
    returns double precision
    language sql stable
as $$
    select least(p_count, coalesce((
        select r.tokens + extract(epoch from p_at - r.updated_at) / extract(epoch from p_period) * p_count
          from penstock.rates r where r.job_type = p_type and r.limit_key = p_key), p_count))::double precision
$$;

create function penstock.spend_tokens(
    p_type text, p_key text, p_spent integer, p_count integer, p_period interval, p_at timestamptz) returns void
    language sql volatile
as $$
    insert into penstock.rates (job_type, limit_key, tokens, updated_at)
    values (p_type, p_key, p_count - p_spent, p_at)
    on conflict (job_type, limit_key) do update
       set tokens = penstock.rate_tokens(p_type, p_key, p_count, p_period, p_at) - p_spent, updated_at = p_at
$$;

-- The breaker of a type. Trips on the n-th failure in a row of a class that no retry can mend; a success closes it.
create function penstock.trip_breaker(p_type text, p_code text) returns boolean
    language plpgsql volatile
as $$
declare
    at timestamptz := penstock.now();
    type penstock.types;
begin
    update penstock.types t set breaker_failures = t.breaker_failures + 1, breaker_code = p_code
     where t.job_type = p_type
    returning * into type;
    if not found or (type.breaker = 'closed' and type.breaker_failures < type.breaker_after) then
        return false;
    end if;
    update penstock.types t
       set breaker = 'open', breaker_opened_at = coalesce(t.breaker_opened_at, at), breaker_probe_at = at + t.breaker_cooldown
     where t.job_type = p_type;
    if type.breaker = 'closed' then
        insert into penstock.alerts (kind, severity, subject)
        values ('breaker_opened', 'alert', jsonb_build_object('job_type', p_type, 'code', p_code));
    end if;
    return true;
end
$$;

create function penstock.close_breaker(p_type text) returns boolean
    language plpgsql volatile
as $$
begin
    update penstock.types t
       set breaker = 'closed', breaker_failures = 0, breaker_code = null, breaker_opened_at = null, breaker_probe_at = null
     where t.job_type = p_type and (t.breaker <> 'closed' or t.breaker_failures > 0);
    return found;
end
$$;

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
begin
    select d.dead_letter_id, d.error_class, d.retryable into letter
      from penstock.dead_letters d where d.job_id = coalesce(p_replay_of, p_job_id) for update;
    if found then
        update penstock.dead_letters d
           set last_job_id = p_job_id, stage = p_stage, error_class = p_class, retryable = p_retryable, reason = p_reason,
               last_stack = p_stack, sanitized_context = p_context, attempts = p_attempts,
               first_failure_at = least(coalesce(p_first, at), at), last_failure_at = at, state = 'open', cause = null, remediation = null, ticket = null,
               replay_safe = null, closed_at = null,
               escalated_at = case when letter.error_class = p_class and not p_retryable then at else d.escalated_at end
         where d.dead_letter_id = letter.dead_letter_id;
        insert into penstock.dead_letter_events (dead_letter_id, step, operator, detail)
        values (letter.dead_letter_id, 'reopened', 'penstock', jsonb_build_object('job_id', p_job_id, 'error_class', p_class));
        if letter.error_class = p_class and not p_retryable then
            insert into penstock.alerts (kind, severity, subject)
            values ('replay_failed_again', 'escalation',
                    jsonb_build_object('dead_letter_id', letter.dead_letter_id, 'job_id', p_job_id, 'code', p_class));
        end if;
    else
        insert into penstock.dead_letters (dead_letter_id, job_id, last_job_id, job_type, stage, error_class, retryable, reason,
            last_stack, sanitized_context, attempts, first_failure_at, last_failure_at, created_at)
        values (penstock.uuid7(), coalesce(p_replay_of, p_job_id), p_job_id, p_type, p_stage, p_class, p_retryable, p_reason,
            p_stack, p_context, p_attempts, least(coalesce(p_first, at), at), at, at);
    end if;
    if p_alert is not null then
        insert into penstock.alerts (kind, severity, subject)
        values (case p_alert when 'page' then 'runtime_bug' else 'unexpected_reject' end, p_alert,
                jsonb_build_object('job_id', p_job_id, 'job_type', p_type, 'stage', p_stage, 'code', p_class));
    end if;
end
$$;

-- The reaper: expired claims go back to the queue, or end when their budget is spent (C-13). Jobs that wait on an
-- open intent of their own claim are left to the recovery of that intent (C-36).
create function penstock.reap(p_limit integer) returns table (job_id uuid, job_type varchar, outcome text)
    language plpgsql volatile
as $$
#variable_conflict use_column
declare
    at timestamptz := penstock.now();
    job record;
    attempts integer;
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
        if job.staged then
            select coalesce(max(s.attempts), 0) into attempts
              from penstock.stages s where s.job_id = job.job_id and s.stage = job.stage;
        end if;
        ends := case when job.counts then attempts + 1 >= job.max_attempts else job.reclaim_count >= job.max_reclaims end;
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
                jsonb_build_object('job_id', job.job_id, 'stage', job.stage, 'attempts', attempts + 1,
                                   'reclaims', job.reclaim_count + 1, 'worker_id', job.claimed_by, 'upstream_status', null),
                attempts + 1, job.first_failure_at, null);
        end if;
        job_id := job.job_id;
        job_type := job.job_type;
        outcome := case when ends then 'failed' else 'queued' end;
        return next;
    end loop;
end
$$;
