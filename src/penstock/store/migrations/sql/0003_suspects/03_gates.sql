-- How many jobs of a gated type may start now, p_limit at the most: none while it is paused or its breaker is open, else
-- what its own limits leave free. p_kept of the free places are kept for others. What runs under the name p_beside does
-- not count: who asks so has ended it by then.
create function penstock.gate_room(
    p_type penstock.types, p_limit integer, p_kept integer, p_beside text, p_at timestamptz) returns integer
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    room integer := p_limit;
begin
    if p_type.paused_at is not null then
        return 0;
    end if;
    if p_type.breaker <> 'closed' then
        -- Open: wait for the time of the probe. Half open: wait for the probe that is under way, or for its time to pass.
        if p_type.breaker_probe_at > p_at then
            return 0;
        end if;
        room := least(room, 1);
    end if;
    if p_type.max_running is not null then
        room := least(room, p_type.max_running - p_kept - (
            select count(*) from penstock.jobs j
             where j.status = 'processing' and j.lease_expires_at is not null and j.job_type = p_type.job_type
               and (p_beside is null or j.claimed_by <> p_beside))::integer);
    end if;
    if room > 0 and p_type.rate_count is not null then
        room := least(room, penstock.rate_room(p_type.job_type, '', p_type.rate_count, p_type.rate_period, p_at) - p_kept);
    end if;
    return greatest(room, 0);
end
$$;

-- p_count jobs of a gated type start.
create function penstock.pass_gate(p_type penstock.types, p_count integer, p_at timestamptz) returns void
    language plpgsql volatile
as $$
begin
    if p_type.rate_count is not null then
        perform penstock.spend_rate(p_type.job_type, '', p_count, p_type.rate_count, p_type.rate_period, p_at);
    end if;
    if p_type.breaker <> 'closed' then
        update penstock.types t set breaker = 'half_open', breaker_probe_at = p_at + t.breaker_cooldown
         where t.job_type = p_type.job_type;
    end if;
end
$$;

-- Claim of a gated type: as much as its gate leaves room for, beside the suspects that workers have set aside.
create or replace function penstock.claim_gated(
    p_type text, p_worker text, p_lease interval, p_limit integer, p_run uuid)
    returns setof penstock.jobs
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
declare
    type penstock.types;
    at timestamptz;
    room integer;
    picked uuid[];
begin
    select * into type from penstock.types t where t.job_type = p_type for update;
    if not found then
        return;
    end if;
    at := penstock.now() + (clock_timestamp() - statement_timestamp()); -- the lock may have been long in coming
    room := penstock.gate_room(type, p_limit, (
        select count(*) from penstock.jobs j
         where j.job_type = p_type and j.status = 'queued' and j.suspect and not j.ready
           and j.reserved_until > at)::integer, null, at);
    if room = 0 then
        return;
    end if;

    if type.key_max_running is not null or type.key_rate_count is not null then
        picked := penstock.pick_by_key(type, room, at);
    else
        picked := array(
            select j.job_id from penstock.jobs j
             where j.job_type = p_type and j.status = 'queued' and j.ready
             order by j.priority, j.created_at, j.job_id limit room for update skip locked);
    end if;
    if cardinality(picked) = 0 then
        return;
    end if;
    perform penstock.pass_gate(type, cardinality(picked), at);
    return query
        update penstock.jobs j
           set status = 'processing', claim_seq = j.claim_seq + 1, claimed_by = p_worker, claimed_at = at, updated_at = at,
               lease_expires_at = at + p_lease, run_id = p_run
         where j.job_id = any(picked)
        returning j.*;
end
$$;

-- Claim of a suspect that this worker has set aside, under the gate of its type and of its key. p_reserved is the
-- reservation: once it has run out another worker may have another one.
create function penstock.claim_suspect(
    p_job uuid, p_type text, p_reserved timestamptz, p_worker text, p_lease interval, p_run uuid)
    returns setof penstock.jobs
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
declare
    type penstock.types;
    suspect record;
    at timestamptz;
begin
    select * into type from penstock.types t where t.job_type = p_type;
    if type.gated then
        select * into type from penstock.types t where t.job_type = p_type for update;
    end if;
    at := penstock.now() + (clock_timestamp() - statement_timestamp());
    select j.limit_key into suspect from penstock.jobs j
     where j.job_id = p_job and j.job_type = p_type and j.status = 'queued' and j.suspect and not j.ready
       and j.reserved_until = p_reserved
       for update skip locked;
    if not found or (type.gated and penstock.gate_room(type, 1, 0, null, at) = 0) then
        return;
    end if;
    if suspect.limit_key is not null and type.key_max_running <= (
            select count(*) from penstock.jobs j
             where j.job_type = p_type and j.status = 'processing' and j.limit_key = suspect.limit_key) then
        return;
    end if;
    if suspect.limit_key is not null and type.key_rate_count is not null then
        if penstock.rate_room(p_type, ':' || suspect.limit_key, type.key_rate_count, type.key_rate_period, at) = 0 then
            return;
        end if;
        perform penstock.spend_rate(p_type, ':' || suspect.limit_key, 1, type.key_rate_count, type.key_rate_period, at);
    end if;
    if type.gated then
        perform penstock.pass_gate(type, 1, at);
    end if;
    return query
        update penstock.jobs j
           set status = 'processing', claim_seq = j.claim_seq + 1, claimed_by = p_worker, claimed_at = at, updated_at = at,
               lease_expires_at = at + p_lease, run_id = p_run, reserved_until = null
         where j.job_id = p_job
        returning j.*;
end
$$;
