-- Enqueue. Every caller comes through these two functions, so that psql, a trigger and Python get one behaviour.
-- They run as the owner: a caller needs no right on the table, only to execute (and the type's own role, if it names one).

-- One job. Answers with {job_id, created, channel, refused}, as an array because that is the least that a call can cost. A
-- refusal is an answer and no exception, so that the caller's transaction can go on: `refused` is then the SQLSTATE that
-- penstock.enqueue raises, and nothing has been written. `channel` is where a poke is still due; it is null when none is
-- due, or when p_poke has sent it with the caller's commit. The payload comes as text, because that is
-- what its size is measured by: in jsonb a number takes more room than a caller could know. p_attempts can lower the
-- budget of this one job, and nothing raises it above its type's (C-11).
create function penstock.put_job(
    p_type text, p_payload text, p_key text, p_run_at timestamptz, p_delay interval,
    p_priority smallint, p_limit_key text, p_job_id uuid, p_poke boolean, p_attempts smallint)
    returns text[]
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    job_id uuid;
    created boolean;
    type record;
    kept record;
    at timestamptz := penstock.now();
    due timestamptz := greatest(p_run_at, at + p_delay, at); -- a time that has passed means now, however long ago it was
begin
    select t.stages[1] as stage, cardinality(t.stages) > 1 as staged, t.max_attempts, t.priority, t.audited,
           t.max_payload_bytes, t.enqueue_role, t.key_max_running is not null or t.key_rate_count is not null as keyed,
           case when t.dispatch = 'notify' then t.channel end as channel
      into type
      from penstock.types t where t.job_type = p_type;
    if not found then
        return array[null, null, null, 'PS010'];
    end if;
    if type.enqueue_role is not null and not pg_has_role(session_user, type.enqueue_role, 'member') then
        return array[null, null, null, '42501'];
    end if;
    if octet_length(p_payload) > type.max_payload_bytes then
        return array[null, null, null, 'PS012'];
    end if;

    if p_key is null then
        job_id := coalesce(p_job_id, penstock.uuid7());
        insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged,
                                   job_type, stage, limit_key, payload)
        values (job_id, at, at, due, due <= at, coalesce(p_priority, type.priority),
                least(type.max_attempts, p_attempts), type.audited, type.staged, p_type, type.stage,
                case when type.keyed then coalesce(p_limit_key, '') else p_limit_key end, p_payload::jsonb);
    else
        select k.job_id, k.payload into kept from penstock.kept_keys k where k.idempotency_key = p_key;
        created := not found;
        if created then
            perform penstock.refuse_unseen_keys(array[p_key]);
            insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited,
                                       staged, job_type, stage, idempotency_key, limit_key, payload)
            values (coalesce(p_job_id, penstock.uuid7()), at, at, due, due <= at, coalesce(p_priority, type.priority),
                    least(type.max_attempts, p_attempts), type.audited, type.staged, p_type, type.stage, p_key,
                    case when type.keyed then coalesce(p_limit_key, '') else p_limit_key end, p_payload::jsonb)
            on conflict (idempotency_key) where idempotency_key is not null do nothing
            returning jobs.job_id into job_id;
            created := job_id is not null;
            if created then
                -- Retention commits a kept key before it removes the job; so a key kept since the look above shows here.
                perform from penstock.kept_keys k where k.idempotency_key = p_key;
            else
                select j.job_id, j.payload into kept from penstock.jobs j where j.idempotency_key = p_key;
            end if;
            if created = found then
                raise exception using errcode = '40001', message = 'the job of this key was pruned just now',
                    hint = 'Try again: the same key then returns the pruned job.';
            end if;
        end if;
        if not created then
            if kept.payload is distinct from p_payload::jsonb then
                return array[null, null, null, 'PS011'];
            end if;
            return array[kept.job_id::text, 'false', null, null];
        end if;
    end if;

    if p_poke and type.channel is not null then
        perform penstock.poke(type.channel, p_type);
        return array[job_id::text, 'true', null, null];
    end if;
    return array[job_id::text, 'true', type.channel, null];
end
$$;

-- The way of most jobs: no key, no time, no priority, and nobody to poke with it. One statement does it all, for the type
-- that the caller remembers by its channel; false, and nothing is written, wherever there is more to say about the type or
-- the payload, which is then put_job's to say.
create function penstock.put_plain(p_type text, p_payload text, p_job_id uuid, p_channel text) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
begin
    insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged,
                               job_type, stage, limit_key, payload)
    select p_job_id, penstock.now(), penstock.now(), penstock.now(), true, t.priority, t.max_attempts, t.audited,
           cardinality(t.stages) > 1, p_type, t.stages[1],
           case when t.key_max_running is not null or t.key_rate_count is not null then '' end, p_payload::jsonb
      from penstock.types t
     where t.job_type = p_type and t.dispatch = 'notify' and t.channel = p_channel and t.enqueue_role is null
       and octet_length(p_payload) <= t.max_payload_bytes;
    return found;
end
$$;

-- A snapshot taken before a job was pruned sees neither the job nor its kept key, and would make the job again. The
-- unique index sees them: under REPEATABLE READ and SERIALIZABLE this raises 40001, which such callers retry anyway.
create function penstock.refuse_unseen_keys(p_keys text[]) returns void
    language plpgsql volatile
as $$
declare
    nobody constant uuid := '00000000-0000-0000-0000-000000000000';
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        insert into penstock.kept_keys (idempotency_key, job_id, payload)
        select distinct key, nobody, 'null'::jsonb from unnest(p_keys) as i(key) where key is not null order by key
        on conflict do nothing;
        delete from penstock.kept_keys k where k.idempotency_key = any(p_keys) and k.job_id = nobody;
    end if;
end
$$;

-- Many jobs of one type, all or none: what is wrong with one is raised. Arrays are of one length; keys and limit keys
-- may hold nulls, or be null. Answers with the id of every row in order, or with null when each is new under the id
-- that came with it.
create function penstock.put_jobs(
    p_type text, p_job_ids uuid[], p_payloads text[], p_keys text[], p_run_at timestamptz, p_delay interval,
    p_priority smallint, p_limit_keys text[], p_poke boolean,
    out job_ids uuid[], out created integer, out channel text)
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    type record;
    clash bigint;
    at timestamptz := penstock.now();
    due timestamptz := greatest(p_run_at, at + p_delay, at); -- as above
begin
    select t.stages[1] as stage, cardinality(t.stages) > 1 as staged, t.max_attempts, t.priority, t.audited,
           t.max_payload_bytes, t.enqueue_role, t.key_max_running is not null or t.key_rate_count is not null as keyed,
           case when t.dispatch = 'notify' then t.channel end as channel
      into type
      from penstock.types t where t.job_type = p_type;
    if not found then
        raise exception using errcode = 'PS010', message = format('job type %L is not registered', p_type);
    end if;
    if type.enqueue_role is not null and not pg_has_role(session_user, type.enqueue_role, 'member') then
        raise exception using errcode = '42501',
            message = format('only members of %s may enqueue %s', type.enqueue_role, p_type);
    end if;
    if exists (select from unnest(p_payloads) as i(payload) where octet_length(i.payload) > type.max_payload_bytes) then
        raise exception using errcode = 'PS012',
            message = format('a payload exceeds the %s bytes that type %s takes', type.max_payload_bytes, p_type);
    end if;

    if p_keys is null then
        insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged,
                                   job_type, stage, limit_key, payload)
        select i.job_id, at, at, due, due <= at, coalesce(p_priority, type.priority), type.max_attempts, type.audited,
               type.staged, p_type, type.stage, case when type.keyed then coalesce(i.limit_key, '') else i.limit_key end,
               i.payload::jsonb
          from unnest(p_job_ids, p_payloads, p_limit_keys) as i(job_id, payload, limit_key);
        created := cardinality(p_job_ids);
    else
        perform penstock.refuse_unseen_keys(p_keys);
        -- In the order of the keys, so that two bulk callers with the same keys wait for each other and never deadlock.
        insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged,
                                   job_type, stage, idempotency_key, limit_key, payload)
        select i.job_id, at, at, due, due <= at, coalesce(p_priority, type.priority), type.max_attempts, type.audited,
               type.staged, p_type, type.stage, i.key,
               case when type.keyed then coalesce(i.limit_key, '') else i.limit_key end, i.payload::jsonb
          from unnest(p_job_ids, p_payloads, p_keys, p_limit_keys) with ordinality
               as i(job_id, payload, key, limit_key, ordinal)
         where i.key is null or not exists (select from penstock.kept_keys k where k.idempotency_key = i.key)
         order by i.key, i.ordinal
        on conflict (idempotency_key) where idempotency_key is not null do nothing;
        get diagnostics created = row_count;

        if exists (select from unnest(p_keys) as i(key) join penstock.kept_keys k on k.idempotency_key = i.key
                          join penstock.jobs j on j.idempotency_key = i.key and j.job_id <> k.job_id) then
            raise exception using errcode = '40001', message = 'the job of a key was pruned just now',
                hint = 'Try again: the same key then returns the pruned job.';
        end if;
        select count(*) filter (where i.key is not null and coalesce(j.payload, k.payload) is distinct from i.payload::jsonb),
               array_agg(coalesce(j.job_id, k.job_id, i.job_id) order by i.ordinal)
          into clash, job_ids
          from unnest(p_job_ids, p_payloads, p_keys) with ordinality as i(job_id, payload, key, ordinal)
          left join penstock.jobs j on j.idempotency_key = i.key
          left join penstock.kept_keys k on k.idempotency_key = i.key;
        if clash > 0 then
            raise exception using errcode = 'PS011',
                message = format('%s idempotency keys were used before with other arguments', clash);
        end if;
        if created = cardinality(p_job_ids) then
            job_ids := null;
        end if;
    end if;

    if created > 0 and p_poke and type.channel is not null then
        perform penstock.poke(type.channel, p_type);
    elsif created > 0 then
        channel := type.channel;
    end if;
end
$$;

-- A poke: a wake-up without data (D-36). Type and nothing else, as any role can listen; no type wakes all.
create function penstock.poke(p_channel text, p_type text) returns void
    language sql volatile
as $$
    select pg_notify(p_channel, case when p_type <> '' then jsonb_build_object('job_type', p_type)::text else '' end)
$$;

-- For callers who want an exception: raises what put_job refused, and does nothing when it did not.
create function penstock.raise_refusal(p_refused text, p_type text) returns void
    language plpgsql stable
as $$
begin
    case p_refused
        when 'PS010' then
            raise exception using errcode = 'PS010', message = format('job type %L is not registered', p_type),
                hint = 'Start a worker that serves it, or run: penstock types sync.';
        when 'PS011' then
            raise exception using errcode = 'PS011', message = 'idempotency key was used before with other arguments',
                hint = 'Use a new key for new work, or the same arguments to get the existing job.';
        when 'PS012' then
            raise exception using errcode = 'PS012', message = format('the payload exceeds what type %s takes', p_type),
                hint = 'Store the data in a table of your own and enqueue its id.';
        when '42501' then
            raise exception using errcode = '42501', message = format('this login may not enqueue %s', p_type),
                hint = 'Use a member of the role that the type''s policy names as enqueue_role.';
        else
            return;
    end case;
end
$$;

-- For psql, triggers and other languages. The poke goes with the caller's commit (C-27);
-- `set penstock.notify = off` leaves it out.
create function penstock.enqueue(
    job_type text, payload jsonb default '{}', key text default null, run_at timestamptz default null,
    delay interval default null, priority integer default null, limit_key text default null,
    attempts integer default null)
    returns uuid
    language plpgsql volatile
as $$
declare
    answer text[];
    furthest constant interval := interval '3660 days';
begin
    if run_at is not null and delay is not null then
        raise exception using errcode = '22023', message = 'give run_at or delay, not both';
    elsif delay < interval '0' or delay > furthest or run_at > penstock.now() + furthest then
        raise exception using errcode = '22023', message = 'a job runs now or within ten years: '
            || case when delay is null then 'run_at is later' when delay < interval '0' then 'delay is negative'
                    else 'delay is longer' end;
    elsif priority not between -32767 and 32767 then
        raise exception using errcode = '22023', message = format('priority lies between -32767 and 32767, not %s', priority);
    elsif attempts not between 1 and 1000 then
        raise exception using errcode = '22023', message = format('attempts lie between 1 and 1000, not %s', attempts);
    elsif key = '' or length(key) > 400 then
        raise exception using errcode = '22023', message = 'an idempotency key has 1 to 400 characters';
    elsif limit_key = '' or length(limit_key) > 400 then
        raise exception using errcode = '22023', message = 'a limit key has 1 to 400 characters';
    end if;
    answer := penstock.put_job(
        job_type, coalesce(payload, '{}')::text, job_type || ':' || key, run_at, delay, priority::smallint, limit_key, null,
        coalesce(current_setting('penstock.notify', true), '') <> 'off', attempts::smallint);
    perform penstock.raise_refusal(answer[4], job_type);
    return answer[1]::uuid;
end
$$;

-- Cancel, for operators and the system (Q-16, C-06). The worker that runs the job is told on the control channel.
create function penstock.cancel(p_job_id uuid, p_who text, p_why text) returns text
    language plpgsql volatile security definer set search_path = pg_catalog
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
