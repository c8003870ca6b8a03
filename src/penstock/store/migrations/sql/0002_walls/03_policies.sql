-- Who may loosen a policy (C-71). A worker registers a type and may tighten what is stored; what would loosen retention,
-- audit, steps, enqueue_role, limits or the daily cap is held back until an operator syncs the type. Until then the stored
-- values rule, and what the worker asked for waits here. (A table of its own: a column more would lock penstock.types
-- against those who enqueue.)
create table penstock.pending_policies (
    job_type varchar(50) primary key,
    policy   jsonb not null,
    held     text[] not null, -- paths within the policy, their parts joined by commas
    asked_at timestamptz not null,
    db_user  name not null
);

-- What a worker asks for and which values of it wait; none: nothing waits any more. The stored policy does not say which:
-- an operator's limits are in their columns alone.
create function penstock.note_pending(p_type text, p_policy jsonb, p_held text[]) returns void
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if cardinality(p_held) = 0 then
        delete from penstock.pending_policies p where p.job_type = p_type;
    else
        insert into penstock.pending_policies as p (job_type, policy, held, asked_at, db_user)
        values (p_type, p_policy, p_held, penstock.now(), session_user)
        on conflict (job_type) do update
           set policy = excluded.policy, held = excluded.held, asked_at = excluded.asked_at, db_user = excluded.db_user
         where (p.policy, p.held) is distinct from (excluded.policy, excluded.held);
    end if;
end
$$;

-- Whether a rate lets more jobs start than another: more of them, or the same in a shorter time.
create function penstock.looser_rate(p_new_count integer, p_new_period interval, p_old_count integer, p_old_period interval)
    returns boolean
    language sql immutable parallel safe set search_path = pg_catalog, pg_temp
as $$
    select p_old_count is not null
       and (p_new_count is null or p_new_count > p_old_count or p_new_period < p_old_period)
$$;

create function penstock.daily_cap(p_policy jsonb) returns numeric
    language sql immutable parallel safe set search_path = pg_catalog, pg_temp
as $$
    select (p_policy ->> 'daily_spend_cap')::numeric
$$;

-- The policy with the stored value at a path, where the path is known.
create function penstock.keep_stored(p_policy jsonb, p_stored jsonb, p_path text[]) returns jsonb
    language sql immutable parallel safe set search_path = pg_catalog, pg_temp
as $$
    select jsonb_set(p_policy, p_path, coalesce(p_stored #> p_path, 'null'))
$$;

create function penstock.hold_loosening() returns trigger
    language plpgsql
as $$
declare
    asked constant jsonb := new.policy;
    held text[] := '{}';
    path text;
begin
    if penstock.is_operator() then
        if new.synced_at is distinct from old.synced_at then
            perform penstock.note_pending(new.job_type, new.policy, '{}');
        end if;
        return new;
    end if;
    if old.audited and not new.audited then
        new.audited := true;
        held := array_append(held, 'audit');
    end if;
    if old.steps_required and not new.steps_required then
        new.steps_required := true;
        held := array_append(held, 'steps_required');
    end if;
    if coalesce(new.keep_finished < old.keep_finished, old.keep_finished is null and new.keep_finished is not null) then
        new.keep_finished := old.keep_finished;
        held := array_append(held, 'keep_finished');
    end if;
    if coalesce(new.keep_keys < old.keep_keys, old.keep_keys is null and new.keep_keys is not null) then
        new.keep_keys := old.keep_keys;
        held := array_append(held, 'keep_keys');
    end if;
    if old.enqueue_role is not null and new.enqueue_role is distinct from old.enqueue_role then
        new.enqueue_role := old.enqueue_role;
        held := array_append(held, 'enqueue_role');
    end if;
    if old.max_running is not null and coalesce(new.max_running > old.max_running, true) then
        new.max_running := old.max_running;
        held := array_append(held, 'limits,running');
    end if;
    if penstock.looser_rate(new.rate_count, new.rate_period, old.rate_count, old.rate_period) then
        new.rate_count := old.rate_count;
        new.rate_period := old.rate_period;
        held := array_append(held, 'limits,rate');
    end if;
    if old.key_max_running is not null and coalesce(new.key_max_running > old.key_max_running, true) then
        new.key_max_running := old.key_max_running;
        held := array_append(held, 'limits,key_running');
    end if;
    if penstock.looser_rate(new.key_rate_count, new.key_rate_period, old.key_rate_count, old.key_rate_period) then
        new.key_rate_count := old.key_rate_count;
        new.key_rate_period := old.key_rate_period;
        held := array_append(held, 'limits,key_rate');
    end if;
    if penstock.daily_cap(old.policy) is not null
       and coalesce(penstock.daily_cap(new.policy) > penstock.daily_cap(old.policy), true) then
        held := array_append(held, 'daily_spend_cap');
    end if;
    foreach path in array held loop
        new.policy := penstock.keep_stored(new.policy, old.policy, string_to_array(path, ','));
    end loop;
    perform penstock.note_pending(new.job_type, asked, held);
    if new.policy = old.policy then
        new.policy_version := old.policy_version;
    end if;
    return new;
end
$$;
create trigger types_loosened_by_operators before update on penstock.types for each row
    when (new.policy is distinct from old.policy or new.synced_at is distinct from old.synced_at
        or new.audited is distinct from old.audited
        or new.steps_required is distinct from old.steps_required
        or new.keep_finished is distinct from old.keep_finished
        or new.keep_keys is distinct from old.keep_keys
        or new.enqueue_role is distinct from old.enqueue_role
        or new.max_running is distinct from old.max_running
        or new.rate_count is distinct from old.rate_count or new.rate_period is distinct from old.rate_period
        or new.key_max_running is distinct from old.key_max_running
        or new.key_rate_count is distinct from old.key_rate_count
        or new.key_rate_period is distinct from old.key_rate_period)
    execute function penstock.hold_loosening();

-- A pause is an operator's, or the daily cap's. A worker ends the latter alone, and only when the stored cap has room.
create function penstock.refuse_foreign_pause() returns trigger
    language plpgsql
as $$
begin
    if penstock.is_operator() then
        return new;
    end if;
    if old.paused_by = 'penstock' and old.pause_reason = 'SPEND_CAP' and new.paused_at is null
       and coalesce(penstock.daily_cap(old.policy) * 1000000 > (
               select coalesce(sum(s.cost_micros), 0) from penstock.spend s
                where s.day = (penstock.now() at time zone 'UTC')::date and s.job_type = old.job_type), true) then
        return new;
    end if;
    raise exception using errcode = '42501',
        message = format('%s may not change the pause of type %s', session_user, old.job_type),
        hint = 'Log in as a member of penstock_operator: penstock types pause, penstock types resume.';
end
$$;
create trigger types_paused_by_operators before update on penstock.types for each row
    when ((new.paused_at, new.paused_by, new.pause_reason) is distinct from (old.paused_at, old.paused_by, old.pause_reason))
    execute function penstock.refuse_foreign_pause();

-- Money spent on calls or items; the type is paused, with an alert, by the call that passes its daily cap: the one that the
-- caller names or the stored one, whichever is lower. What was spent never falls.
create or replace function penstock.add_spend(
    p_type text, p_provider text, p_model text, p_source text, p_target text, p_execution text,
    p_input bigint, p_output bigint, p_cost bigint, p_cap bigint, p_calls bigint default 1) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    today date := (penstock.now() at time zone 'UTC')::date;
    cap bigint;
    total bigint;
begin
    if least(p_input, p_output, p_cost, p_calls) < 0 then
        raise exception using errcode = '22023', message = 'what was spent is never negative';
    end if;
    insert into penstock.spend as s (day, job_type, provider, model, source_locale, target_locale, execution, calls,
                                     input_tokens, output_tokens, cost_micros)
    values (today, p_type, p_provider, p_model, p_source, p_target, p_execution, p_calls, p_input, p_output, p_cost)
    on conflict (day, job_type, provider, model, source_locale, target_locale, execution) do update
       set calls = s.calls + excluded.calls, input_tokens = s.input_tokens + excluded.input_tokens,
           output_tokens = s.output_tokens + excluded.output_tokens, cost_micros = s.cost_micros + excluded.cost_micros;
    select least(p_cap, penstock.daily_cap(t.policy) * 1000000)::bigint into cap
      from penstock.types t where t.job_type = p_type;
    cap := coalesce(cap, p_cap);
    if cap is null then
        return false;
    end if;
    select sum(s.cost_micros) into total from penstock.spend s where s.day = today and s.job_type = p_type;
    if total < cap then
        return false;
    end if;
    update penstock.types t
       set paused_at = penstock.now(), paused_by = 'penstock', pause_reason = 'SPEND_CAP'
     where t.job_type = p_type and t.paused_at is null;
    if found then
        insert into penstock.alerts (kind, severity, subject)
        values ('spend_cap_reached', 'alert', jsonb_build_object('job_type', p_type, 'day', today));
        perform pg_notify('penstock_control', '{"gates": true}');
    end if;
    return found;
end
$$;
