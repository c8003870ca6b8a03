-- Enqueue. Every caller comes through these two functions, so that psql, a trigger and Python get one behaviour.
-- They run as the owner: a caller needs no right on the table, only to execute (and the type's own role, if it names one).
create function penstock.put_job(
    p_type text, p_payload jsonb, p_key text, p_run_at timestamptz, p_delay interval,
    p_priority smallint, p_limit_key text, p_max_attempts smallint, p_job_id uuid,
    out job_id uuid, out created boolean, out channel text)
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    type record;
    kept record;
    at timestamptz := penstock.now();
    due timestamptz := coalesce(p_run_at, at + p_delay, at);
begin
    select t.stages[1] as stage, cardinality(t.stages) > 1 as staged, t.max_attempts, t.priority, t.audited,
           t.max_payload_bytes, t.enqueue_role, t.key_max_running, t.key_rate_count,
           case when t.dispatch = 'notify' then t.channel end as channel
      into type
      from penstock.types t where t.job_type = p_type;
    if not found then
        raise exception using errcode = 'PS010', message = format('job type %L is not registered', p_type),
            hint = 'Start a worker that serves it, or run: penstock types sync.';
    end if;
    if type.enqueue_role is not null and not pg_has_role(session_user, type.enqueue_role, 'member') then
        raise exception using errcode = '42501',
            message = format('only members of %s may enqueue %s', type.enqueue_role, p_type);
    end if;
    if pg_column_size(p_payload) > type.max_payload_bytes then
        raise exception using errcode = 'PS012',
            message = format('payload of %s bytes exceeds the %s bytes that type %s takes',
                             pg_column_size(p_payload), type.max_payload_bytes, p_type),
            hint = 'Store the data in a table of your own and enqueue its id.';
    end if;
    channel := type.channel;

    if p_key is not null then
        select k.job_id, k.payload into kept from penstock.kept_keys k where k.idempotency_key = p_key;
        if found then
            if kept.payload is distinct from p_payload then
                raise exception using errcode = 'PS011', message = 'idempotency key was used before with other arguments';
            end if;
            job_id := kept.job_id;
            created := false;
            return;
        end if;
    end if;

    insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged,
                               job_type, stage, idempotency_key, limit_key, payload)
    values (coalesce(p_job_id, penstock.uuid7()), at, at, due, due <= at, coalesce(p_priority, type.priority),
            least(coalesce(p_max_attempts, type.max_attempts), type.max_attempts), type.audited, type.staged, p_type, type.stage, p_key,
            case when type.key_max_running is null and type.key_rate_count is null then p_limit_key
                 else coalesce(p_limit_key, '') end, p_payload)
    on conflict (idempotency_key) where idempotency_key is not null do nothing
    returning jobs.job_id into job_id;
    created := job_id is not null;
    if p_key is null then
        return;
    end if;

    if created then
        -- Retention commits a kept key before it removes the job; so a key kept since the look above shows up here.
        perform from penstock.kept_keys k where k.idempotency_key = p_key;
        if found then
            raise exception using errcode = '40001', message = 'the job of this key was pruned just now',
                hint = 'Try again: the same key then returns the pruned job.';
        end if;
        return;
    end if;
    select j.job_id, j.payload into kept from penstock.jobs j where j.idempotency_key = p_key;
    if not found then
        raise exception using errcode = '40001', message = 'the job of this key was pruned just now',
            hint = 'Try again: the same key then returns the pruned job.';
    elsif kept.payload is distinct from p_payload then
        raise exception using errcode = 'PS011', message = 'idempotency key was used before with other arguments';
    end if;
    job_id := kept.job_id;
end
$$;

-- The same for many jobs of one type. Arrays are of one length; keys, run times and limit keys may hold nulls.
-- Answers one row per input row, in order; a known key answers with the job it has.
create function penstock.put_jobs(
    p_type text, p_job_ids uuid[], p_payloads jsonb[], p_keys text[], p_run_ats timestamptz[],
    p_priority smallint, p_limit_keys text[])
    returns table (job_id uuid, created boolean)
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
#variable_conflict use_column
declare
    type record;
    at timestamptz := penstock.now();
    clash bigint;
begin
    select t.stages[1] as stage, cardinality(t.stages) > 1 as staged, t.max_attempts, t.priority, t.audited,
           t.max_payload_bytes, t.enqueue_role,
           t.key_max_running is not null or t.key_rate_count is not null as keyed
      into type
      from penstock.types t where t.job_type = p_type;
    if not found then
        raise exception using errcode = 'PS010', message = format('job type %L is not registered', p_type),
            hint = 'Start a worker that serves it, or run: penstock types sync.';
    end if;
    if type.enqueue_role is not null and not pg_has_role(session_user, type.enqueue_role, 'member') then
        raise exception using errcode = '42501',
            message = format('only members of %s may enqueue %s', type.enqueue_role, p_type);
    end if;
    if exists (select from unnest(p_payloads) as p(payload) where pg_column_size(p.payload) > type.max_payload_bytes) then
        raise exception using errcode = 'PS012',
            message = format('a payload exceeds the %s bytes that type %s takes', type.max_payload_bytes, p_type),
            hint = 'Store the data in a table of your own and enqueue its id.';
    end if;

    if p_keys is null then
        insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged,
                                   job_type, stage, limit_key, payload)
        select i.job_id, at, at, coalesce(i.run_at, at), coalesce(i.run_at, at) <= at, coalesce(p_priority, type.priority),
               type.max_attempts, type.audited, type.staged, p_type, type.stage,
               case when type.keyed then coalesce(i.limit_key, '') else i.limit_key end, i.payload
          from unnest(p_job_ids, p_payloads, p_run_ats, p_limit_keys) as i(job_id, payload, run_at, limit_key);
        return query select i.job_id, true from unnest(p_job_ids) as i(job_id);
        return;
    end if;

    -- In the order of the keys, so that two bulk callers with the same keys wait for each other and never deadlock.
    insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged,
                               job_type, stage, idempotency_key, limit_key, payload)
    select i.job_id, at, at, coalesce(i.run_at, at), coalesce(i.run_at, at) <= at, coalesce(p_priority, type.priority),
           type.max_attempts, type.audited, type.staged, p_type, type.stage, i.key,
           case when type.keyed then coalesce(i.limit_key, '') else i.limit_key end, i.payload
      from unnest(p_job_ids, p_payloads, p_keys, p_run_ats, p_limit_keys) with ordinality
           as i(job_id, payload, key, run_at, limit_key, ordinal)
     where i.key is null or not exists (select from penstock.kept_keys k where k.idempotency_key = i.key)
     order by i.key, i.ordinal
    on conflict (idempotency_key) where idempotency_key is not null do nothing;

    if exists (select from unnest(p_keys) as i(key) join penstock.kept_keys k on k.idempotency_key = i.key
                      join penstock.jobs j on j.idempotency_key = i.key) then
        raise exception using errcode = '40001', message = 'the job of a key was pruned just now',
            hint = 'Try again: the same key then returns the pruned job.';
    end if;
    select count(*) into clash
      from unnest(p_payloads, p_keys) as i(payload, key)
      left join penstock.jobs j on j.idempotency_key = i.key
      left join penstock.kept_keys k on k.idempotency_key = i.key
     where i.key is not null and coalesce(j.payload, k.payload) is distinct from i.payload;
    if clash > 0 then
        raise exception using errcode = 'PS011',
            message = format('%s idempotency keys were used before with other arguments', clash);
    end if;
    return query
        select coalesce(j.job_id, k.job_id, i.job_id), coalesce(j.job_id, k.job_id, i.job_id) = i.job_id
          from unnest(p_job_ids, p_keys) with ordinality as i(job_id, key, ordinal)
          left join penstock.jobs j on j.idempotency_key = i.key
          left join penstock.kept_keys k on k.idempotency_key = i.key
         order by i.ordinal;
end
$$;

-- A poke: a wake-up without data (D-36). Type and nothing else, as any role can listen.
create function penstock.poke(p_channel text, p_type text) returns void
    language sql volatile
as $$
    select pg_notify(p_channel, json_build_object('job_type', p_type)::text)
$$;

-- For psql, triggers and other languages. The poke goes with the caller's commit (C-27);
-- `set penstock.notify = off` leaves it out.
create function penstock.enqueue(
    job_type text, payload jsonb default '{}', key text default null, run_at timestamptz default null,
    delay interval default null, priority integer default null, limit_key text default null)
    returns uuid
    language plpgsql volatile
as $$
declare
    answer record;
begin
    if run_at is not null and delay is not null then
        raise exception using errcode = '22023', message = 'give run_at or delay, not both';
    end if;
    if key = '' or length(key) > 400 then
        raise exception using errcode = '22023', message = 'an idempotency key has 1 to 400 characters';
    end if;
    select * into answer from penstock.put_job(
        job_type, coalesce(payload, '{}'), job_type || ':' || key, run_at, delay, priority::smallint, limit_key, null, null);
    if answer.created and answer.channel is not null
       and coalesce(current_setting('penstock.notify', true), '') <> 'off' then
        perform penstock.poke(answer.channel, job_type);
    end if;
    return answer.job_id;
end
$$;

-- Cancel, for operators and the system (Q-16, C-06). The worker that runs the job is told on the control channel.
create function penstock.cancel(p_job_id uuid, p_who text, p_why text) returns text
    language plpgsql volatile
as $$
declare
    job record;
begin
    select j.status into job from penstock.jobs j where j.job_id = p_job_id for update;
    if not found then
        return null;
    end if;
    if job.status in ('completed', 'failed', 'canceled') then
        return job.status;
    end if;
    update penstock.jobs j
       set status = 'canceled', finished_at = penstock.now(), updated_at = penstock.now(), lease_expires_at = null,
           last_error_code = 'CANCELED', last_error_at = penstock.now(),
           last_error_message = left('canceled by ' || p_who || coalesce(': ' || p_why, ''), 500)
     where j.job_id = p_job_id;
    if job.status = 'processing' then
        perform pg_notify('penstock_control', json_build_object('cancel', p_job_id)::text);
    end if;
    return 'canceled';
end
$$;
