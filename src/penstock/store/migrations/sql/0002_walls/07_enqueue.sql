-- A key begins with its type: a caller who may enqueue one type cannot take the keys of another.
create or replace function penstock.put_job(
    p_type text, p_payload text, p_key text, p_run_at timestamptz, p_delay interval,
    p_priority smallint, p_limit_key text, p_job_id uuid, p_poke boolean, p_attempts smallint)
    returns text[]
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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
    if not starts_with(p_key, p_type || ':') then
        return array[null, null, null, 'PS013'];
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

create or replace function penstock.put_jobs(
    p_type text, p_job_ids uuid[], p_payloads text[], p_keys text[], p_run_at timestamptz, p_delay interval,
    p_priority smallint, p_limit_keys text[], p_poke boolean,
    out job_ids uuid[], out created integer, out channel text)
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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
    if exists (select from unnest(p_keys) as i(key) where not starts_with(i.key, p_type || ':')) then
        raise exception using errcode = 'PS013', message = format('a key is not one of type %s', p_type);
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

-- For callers who want an exception: raises what put_job refused, and does nothing when it did not.
create or replace function penstock.raise_refusal(p_refused text, p_type text) returns void
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
        when 'PS013' then
            raise exception using errcode = 'PS013', message = format('the key is not one of type %s', p_type),
                hint = 'A stored key begins with its type and a colon; penstock.enqueue adds them.';
        when '42501' then
            raise exception using errcode = '42501', message = format('this login may not enqueue %s', p_type),
                hint = 'Use a member of the role that the type''s policy names as enqueue_role.';
        else
            return;
    end case;
end
$$;

-- Names of advisory locks, salted with what only the owner can read: any login may take an advisory lock, so one that could
-- work a lock out could hold up the work that waits for it.
create table penstock.lock_salt (
    only_row boolean primary key default true check (only_row),
    salt     text not null
);
insert into penstock.lock_salt (salt) values (encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'hex'));
create function penstock.lock_key(p_name text) returns bigint
    language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select hashtextextended(s.salt || ':' || p_name, 0) from penstock.lock_salt s
$$;
