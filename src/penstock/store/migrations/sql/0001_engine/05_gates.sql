-- Gates of a type (C-64): pause, breaker, limits. A gated type is claimed through penstock.claim_gated alone, one claim
-- at a time under the lock of its row in penstock.types, so that the counts it sees are true for all workers.

-- How many more may start now. A window that slides: never more than p_count starts in any stretch of p_period.
create function penstock.rate_room(p_type text, p_key text, p_count integer, p_period interval, p_at timestamptz)
    returns integer
    language sql stable
as $$
    select greatest(0, p_count - coalesce((
        select sum(start.number)
          from penstock.rates r cross join unnest(r.starts, r.counts) as start(at, number)
         where r.job_type = p_type and r.limit_key = p_key and start.at > p_at - p_period), 0))::integer
$$;

-- Remember starts. Each claim adds one entry; beyond a hundred, entries of one fiftieth of the period are joined under
-- the latest of their times, so a start may count a little too long and never too short.
create function penstock.spend_rate(
    p_type text, p_key text, p_spent integer, p_count integer, p_period interval, p_at timestamptz) returns void
    language plpgsql volatile
as $$
declare
    times timestamptz[];
    numbers integer[];
begin
    select array_agg(start.at order by start.at), array_agg(start.number order by start.at) into times, numbers
      from (select r.starts, r.counts from penstock.rates r where r.job_type = p_type and r.limit_key = p_key) as row
     cross join unnest(row.starts || p_at, row.counts || p_spent) as start(at, number)
     where start.at > p_at - p_period;
    if times is null then
        times := array[p_at];
        numbers := array[p_spent];
    elsif cardinality(times) > 100 then
        select array_agg(cell.at order by cell.at), array_agg(cell.number order by cell.at) into times, numbers
          from (select max(start.at) as at, sum(start.number)::integer as number
                  from unnest(times, numbers) as start(at, number)
                 group by floor(extract(epoch from start.at) / (extract(epoch from p_period) / 50))) as cell;
    end if;
    insert into penstock.rates as r (job_type, limit_key, starts, counts, opens_at, expires_at)
    values (p_type, p_key, times, numbers,
            case when p_count <= (select sum(n) from unnest(numbers) as n) then times[1] + p_period end,
            times[cardinality(times)] + p_period)
    on conflict (job_type, limit_key) do update
       set starts = excluded.starts, counts = excluded.counts, opens_at = excluded.opens_at,
           expires_at = excluded.expires_at;
end
$$;

-- The jobs that the limits of single keys let through, at most p_room. Goes from key to key in the index, in a circle
-- that begins behind the key of the last claim: a long backlog of one key costs the others one step, not its length,
-- and every key gets its turn.
create function penstock.pick_by_key(p_type penstock.types, p_room integer, p_at timestamptz) returns uuid[]
    language plpgsql volatile
as $$
declare
    begun text := p_type.key_cursor;
    this_key text := p_type.key_cursor;
    circled boolean := p_type.key_cursor is null;
    seen integer := 0;
    free integer;
    taken uuid[];
    picked uuid[];
begin
    -- Since the limit was set a job without a key gets the key ''. Jobs that have none are older, so they stand in
    -- front; looking further would mean to walk through the backlogs of the keys.
    picked := array(
        select j.job_id from penstock.jobs j
         where j.job_id = any(array(
               select front.job_id from penstock.jobs front
                where front.job_type = p_type.job_type and front.status = 'queued' and front.ready
                order by front.priority, front.created_at, front.job_id limit 50))
           and j.status = 'queued' and j.ready and j.limit_key is null
         order by j.priority, j.created_at, j.job_id limit p_room for update skip locked);
    while cardinality(picked) < p_room and seen < 1000 loop
        if this_key is null then
            -- Not min(): with old statistics the planner may go through all of them for it.
            select j.limit_key into this_key from penstock.jobs j
             where j.job_type = p_type.job_type and j.status = 'queued' and j.ready and j.limit_key is not null
             order by j.limit_key limit 1;
        else
            select j.limit_key into this_key from penstock.jobs j
             where j.job_type = p_type.job_type and j.status = 'queued' and j.ready and j.limit_key > this_key
             order by j.limit_key limit 1;
        end if;
        if this_key is null then
            exit when circled;
            circled := true;
            continue;
        end if;
        exit when circled and begun is not null and this_key > begun;
        seen := seen + 1;
        free := p_room - cardinality(picked);
        if p_type.key_max_running is not null then
            select least(free, p_type.key_max_running - count(*)) into free
              from penstock.jobs j
             where j.job_type = p_type.job_type and j.status = 'processing' and j.limit_key = this_key;
        end if;
        if free > 0 and p_type.key_rate_count is not null then
            free := least(free, penstock.rate_room(
                p_type.job_type, ':' || this_key, p_type.key_rate_count, p_type.key_rate_period, p_at));
        end if;
        continue when free <= 0;
        taken := array(
            select j.job_id from penstock.jobs j
             where j.job_type = p_type.job_type and j.status = 'queued' and j.ready and j.limit_key = this_key
             order by j.priority, j.created_at, j.job_id limit free for update skip locked);
        continue when cardinality(taken) = 0;
        picked := picked || taken;
        if p_type.key_rate_count is not null then
            perform penstock.spend_rate(p_type.job_type, ':' || this_key, cardinality(taken),
                                        p_type.key_rate_count, p_type.key_rate_period, p_at);
        end if;
    end loop;
    update penstock.types t set key_cursor = this_key
     where t.job_type = p_type.job_type and t.key_cursor is distinct from this_key;
    if p_type.key_rate_count is not null then
        -- Keys that have been quiet for a whole period need no memory; a few go with each claim.
        delete from penstock.rates r
         where (r.job_type, r.limit_key) in (
               select old.job_type, old.limit_key from penstock.rates old
                where old.job_type = p_type.job_type and old.expires_at <= p_at
                order by old.expires_at limit 10);
    end if;
    return picked;
end
$$;

-- Claim of a gated type: nothing while it is paused or its breaker is open, else as much as its limits leave free.
create function penstock.claim_gated(
    p_type text, p_worker text, p_lease interval, p_limit integer, p_run uuid)
    returns setof penstock.jobs
    language plpgsql volatile set lock_timeout = '1s'
as $$
declare
    type penstock.types;
    at timestamptz;
    room integer := p_limit;
    picked uuid[];
begin
    select * into type from penstock.types t where t.job_type = p_type for update;
    if not found or type.paused_at is not null then
        return;
    end if;
    at := penstock.now() + (clock_timestamp() - statement_timestamp()); -- the lock may have been long in coming
    if type.breaker <> 'closed' then
        -- Open: wait for the time of the probe. Half open: wait for the probe that is under way, or for its time to pass.
        if type.breaker_probe_at > at then
            return;
        end if;
        room := least(room, 1);
    end if;
    if type.max_running is not null then
        room := least(room, type.max_running - (
            select count(*) from penstock.jobs j
             where j.status = 'processing' and j.lease_expires_at is not null and j.job_type = p_type)::integer);
    end if;
    if room > 0 and type.rate_count is not null then
        room := least(room, penstock.rate_room(p_type, '', type.rate_count, type.rate_period, at));
    end if;
    if room <= 0 then
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
    if type.rate_count is not null then
        perform penstock.spend_rate(p_type, '', cardinality(picked), type.rate_count, type.rate_period, at);
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

-- The breaker of a type. Trips on the n-th failure in a row of a class that no retry can mend, and again whenever a
-- probe fails so. True when this has opened it.
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
    -- A failure of a job that had started before it opened does not put off the probe.
    update penstock.types t
       set breaker = 'open', breaker_opened_at = coalesce(t.breaker_opened_at, at),
           breaker_probe_at = case when t.breaker = 'open' then t.breaker_probe_at else at + t.breaker_cooldown end
     where t.job_type = p_type;
    if type.breaker = 'closed' then
        insert into penstock.alerts (kind, severity, subject)
        values ('breaker_opened', 'alert', jsonb_build_object('job_type', p_type, 'code', p_code));
    end if;
    return type.breaker <> 'open';
end
$$;

-- Opens the breaker at once, whatever the count: what was refused was no job's own failure, and the next one would meet
-- the same. No probe before p_for has passed, and never before the cooldown. True when it was closed.
create function penstock.open_breaker(p_type text, p_code text, p_for interval) returns boolean
    language plpgsql volatile
as $$
declare
    at timestamptz := penstock.now();
    before text;
begin
    select t.breaker into before from penstock.types t where t.job_type = p_type for update;
    if not found then
        return false;
    end if;
    update penstock.types t
       set breaker = 'open', breaker_failures = greatest(t.breaker_failures + 1, t.breaker_after), breaker_code = p_code,
           breaker_opened_at = coalesce(t.breaker_opened_at, at),
           breaker_probe_at = at + greatest(t.breaker_cooldown, p_for)
     where t.job_type = p_type;
    perform pg_notify('penstock_control', '{"gates": true}');
    return before = 'closed';
end
$$;

-- A job of the type has succeeded: the row of failures ends, and a probe closes the breaker. While it is open the
-- success is that of a job which started earlier, and proves nothing. True when the breaker has closed.
create function penstock.mend_breaker(p_type text) returns boolean
    language plpgsql volatile
as $$
declare
    before text;
begin
    select t.breaker into before from penstock.types t
     where t.job_type = p_type and t.breaker <> 'open' and (t.breaker <> 'closed' or t.breaker_failures > 0)
       for update;
    if not found then
        return false;
    end if;
    perform penstock.close_breaker(p_type);
    return before = 'half_open';
end
$$;

-- Closed, whatever it was: by a probe that went well, or by an operator. True when that changed anything.
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
