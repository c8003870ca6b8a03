-- What operators do, and who did it. Each act keeps the login that did it (db_user, which no caller can choose) and the name
-- that the caller gave (actor, as asserted).
create table penstock.operator_events (
    event_id bigint generated always as identity primary key,
    at       timestamptz not null,
    db_user  name not null,
    actor    text not null,
    action   varchar(50) not null,
    subject  jsonb not null default '{}',
    reason   text
);
create index operator_events_at on penstock.operator_events using brin (at);
create trigger operator_events_append_only before update or delete on penstock.operator_events for each row
    execute function penstock.refuse_rewriting();
create trigger operator_events_never_emptied before truncate on penstock.operator_events
    execute function penstock.refuse_rewriting();

-- For functions that run as the owner; no role may call it.
create function penstock.note_act(p_action text, p_actor text, p_subject jsonb, p_reason text default null) returns void
    language sql volatile set search_path = pg_catalog, pg_temp
as $$
    insert into penstock.operator_events (at, db_user, actor, action, subject, reason)
    values (penstock.now(), session_user, left(coalesce(nullif(btrim(p_actor), ''), session_user), 200), p_action, p_subject,
            left(p_reason, 1000))
$$;

alter table penstock.dead_letter_events add column db_user name;
alter table penstock.dead_letter_events alter column db_user set default session_user;
alter table penstock.effect_attempts add column db_user name;
alter table penstock.effect_attempts alter column db_user set default session_user;
alter table penstock.api_keys add column created_db_user name, add column revoked_db_user name;
alter table penstock.api_keys alter column created_db_user set default session_user;

-- ------------------------------------------------------------------- gates, schedules, alerts, batches

-- Whoever moves a gate leaves a trace of it, also by hand-typed SQL.
create function penstock.note_gate() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if (new.paused_at is null) <> (old.paused_at is null) then
        perform penstock.note_act(case when new.paused_at is null then 'resume' else 'pause' end,
            coalesce(new.paused_by, session_user), jsonb_build_object('job_type', new.job_type), new.pause_reason);
    end if;
    if (new.max_running, new.rate_count, new.rate_period, new.key_max_running, new.key_rate_count, new.key_rate_period)
       is distinct from
       (old.max_running, old.rate_count, old.rate_period, old.key_max_running, old.key_rate_count, old.key_rate_period) then
        perform penstock.note_act('limits', session_user, jsonb_build_object('job_type', new.job_type,
            'running', new.max_running, 'rate_count', new.rate_count, 'rate_period', new.rate_period::text,
            'key_running', new.key_max_running, 'key_rate_count', new.key_rate_count,
            'key_rate_period', new.key_rate_period::text));
    end if;
    if new.policy is distinct from old.policy then
        perform penstock.note_act('policy', session_user,
            jsonb_build_object('job_type', new.job_type, 'policy_version', new.policy_version));
    end if;
    return null;
end
$$;
create trigger types_noted after update on penstock.types for each row
    when ((new.paused_at is null) <> (old.paused_at is null) or new.policy is distinct from old.policy
        or (new.max_running, new.rate_count, new.rate_period, new.key_max_running, new.key_rate_count, new.key_rate_period)
            is distinct from
           (old.max_running, old.rate_count, old.rate_period, old.key_max_running, old.key_rate_count, old.key_rate_period))
    execute function penstock.note_gate();

create function penstock.note_schedule() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock.note_act(
        case when new.requested_at is distinct from old.requested_at then 'schedule_run'
             when new.enabled then 'schedule_on' else 'schedule_off' end,
        coalesce(new.requested_by, session_user), jsonb_build_object('schedule', new.schedule));
    return null;
end
$$;
create trigger schedules_noted after update on penstock.schedules for each row
    when (new.enabled <> old.enabled or (new.requested_at is not null and new.requested_at is distinct from old.requested_at))
    execute function penstock.note_schedule();

create function penstock.note_acknowledged() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock.note_act('acknowledge', new.acknowledged_by, jsonb_build_object('alert_id', new.alert_id, 'kind', new.kind));
    return null;
end
$$;
create trigger alerts_noted after update on penstock.alerts for each row
    when (new.acknowledged_at is not null and new.acknowledged_at is distinct from old.acknowledged_at)
    execute function penstock.note_acknowledged();

create function penstock.note_batch_cancel() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock.note_act('cancel_batch', session_user, jsonb_build_object('batch_id', new.batch_id));
    return null;
end
$$;
create trigger batches_noted after update on penstock.batches for each row
    when (new.cancel_asked_at is not null and old.cancel_asked_at is null)
    execute function penstock.note_batch_cancel();

-- --------------------------------------------------------------------------------- jobs and payloads

-- Cancel, for operators and the system (Q-16, C-06). The worker that runs the job is poked on the control channel and looks.
create or replace function penstock.cancel(p_job_id uuid, p_who text, p_why text) returns text
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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
    perform penstock.note_act('cancel', p_who, jsonb_build_object('job_id', p_job_id), p_why);
    if job.status = 'processing' then
        perform pg_notify('penstock_control', json_build_object('cancel', p_job_id)::text);
    end if;
    return 'canceled';
end
$$;

-- A payload, for an operator who says why. The act is kept; it is also written to the server's log, where a rollback does
-- not take it back, and numbered, so that a number without its row shows that one was taken back. Null: no such job.
create sequence penstock.payload_openings;
create function penstock.open_payload(p_job_id uuid, p_reason text, p_actor text default null) returns jsonb
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    opened jsonb;
    number bigint;
begin
    if coalesce(btrim(p_reason), '') = '' then
        raise exception using errcode = '22023', message = 'say why the payload is opened: the reason is kept',
            hint = 'select penstock.open_payload(job_id, ''ticket 4711: recipient says nothing arrived'');';
    end if;
    select j.payload into opened from penstock.jobs j where j.job_id = p_job_id;
    if not found then
        return null;
    end if;
    number := nextval('penstock.payload_openings');
    raise log 'penstock: payload of job % opened by %, opening %', p_job_id, session_user, number;
    perform penstock.note_act('open_payload', p_actor, jsonb_build_object('job_id', p_job_id, 'opening', number), p_reason);
    return opened;
end
$$;

-- Numbers of openings that have no row: transactions that read a payload and were rolled back. Retention takes the oldest
-- rows and leaves the newest.
create function penstock.unrecorded_openings() returns bigint
    language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select case when s.is_called then s.last_value - kept.first + 1 - kept.number else 0 end
      from penstock.payload_openings s,
           (select coalesce(min((e.subject ->> 'opening')::bigint), 1) as first, count(*) as number
              from penstock.operator_events e where e.action = 'open_payload') as kept
$$;

-- ------------------------------------------------------------------------------- work on dead letters

-- Of two operators one waits and then sees what the other did.
create function penstock.lock_dead_letter(p_dead_letter_id uuid) returns void
    language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select from penstock.dead_letters d where d.dead_letter_id = p_dead_letter_id for update
$$;

create function penstock.refuse_step(p_step text, p_dead_letter_id uuid, p_why text) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using errcode = 'PS020', message = format('cannot %s dead letter %s: %s', p_step, p_dead_letter_id, p_why);
end
$$;

-- One step of the five with its trace (E-33 to E-44): in their order, each with its evidence, whatever calls this.
create function penstock.take_step(
    p_dead_letter_id uuid, p_step text, p_actor text, p_detail jsonb,
    p_cause text default null, p_remediation text default null, p_ticket text default null,
    p_replay_safe boolean default null, p_notes text default null) returns void
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    letter record;
begin
    perform penstock.lock_dead_letter(p_dead_letter_id);
    select * into letter from penstock.dead_letter_overview o where o.dead_letter_id = p_dead_letter_id;
    if not found then
        perform penstock.refuse_step(p_step, p_dead_letter_id, 'there is none of this id');
    end if;
    if coalesce(btrim(p_actor), '') = '' then
        perform penstock.refuse_step(p_step, p_dead_letter_id, 'say who takes the step');
    end if;
    case p_step
    when 'triaged' then
        if letter.state not in ('open', 'triaged', 'remediated', 'validated') or p_cause is null then
            perform penstock.refuse_step('triage', p_dead_letter_id, format('it is %s, the cause is %s', letter.state, coalesce(p_cause, 'missing')));
        end if;
        update penstock.dead_letters d
           set state = 'triaged', cause = p_cause, remediation = null, ticket = null, replay_safe = null
         where d.dead_letter_id = p_dead_letter_id;
    when 'remediated' then
        if letter.state not in ('triaged', 'remediated') or letter.cause is null or coalesce(btrim(p_remediation), '') = '' then
            perform penstock.refuse_step('remediate', p_dead_letter_id, format('it is %s; triage it first and say what was done', letter.state));
        end if;
        update penstock.dead_letters d set state = 'remediated', remediation = p_remediation
         where d.dead_letter_id = p_dead_letter_id;
    when 'validated' then
        if letter.state not in ('remediated', 'validated') or coalesce(btrim(p_ticket), '') = ''
           or p_replay_safe is distinct from true then
            perform penstock.refuse_step('validate', p_dead_letter_id,
                format('it is %s; remediate it first, name the ticket and confirm that a replay is safe', letter.state));
        end if;
        update penstock.dead_letters d set state = 'validated', ticket = p_ticket, replay_safe = true
         where d.dead_letter_id = p_dead_letter_id;
    when 'closed' then
        if letter.state <> 'replaying' or letter.replay_status is distinct from 'completed'
           or coalesce(btrim(p_notes), '') = ''
           or (letter.open_effects > 0 and coalesce(p_detail ->> 'delivery_verified', '') <> 'true') then
            perform penstock.refuse_step('close', p_dead_letter_id, format('it is %s, its replay is %s, %s outside effects are open; write notes',
                letter.state, coalesce(letter.replay_status, 'missing'), letter.open_effects));
        end if;
        update penstock.dead_letters d set state = 'resolved', notes = p_notes, closed_at = penstock.now()
         where d.dead_letter_id = p_dead_letter_id;
    when 'closed_without_replay' then
        if letter.state = 'resolved' or coalesce(btrim(p_notes), '') = ''
           or (letter.state = 'replaying' and coalesce(letter.replay_status, 'canceled') <> 'canceled')
           or (letter.steps_required and letter.cause is null) then
            perform penstock.refuse_step('close', p_dead_letter_id, format('it is %s; triage it first and write notes', letter.state));
        end if;
        update penstock.dead_letters d set state = 'resolved', notes = p_notes, closed_at = penstock.now()
         where d.dead_letter_id = p_dead_letter_id;
    else
        perform penstock.refuse_step(p_step, p_dead_letter_id, 'there is no such step');
    end case;
    insert into penstock.dead_letter_events (dead_letter_id, step, operator, detail)
    values (p_dead_letter_id, p_step, left(p_actor, 200), p_detail);
end
$$;

-- A replay: a new job beside the failed one, which stays as it is (C-51). It has the payload and the rank of the
-- original, a fresh budget within its type's, and the results of the stages that were finished; a full restart goes without
-- them. Type, steps, state, stage and budget are looked at here, whatever calls this. The number in the key is the first
-- free one: an application may have used such a key itself.
create function penstock.replay(
    p_dead_letter_id uuid, p_full_restart boolean, p_job_id uuid, p_actor text,
    out job_id uuid, out stage text, out job_type text, out channel text)
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    letter record;
    original record;
    ordinal integer;
    at timestamptz;
begin
    perform penstock.lock_dead_letter(p_dead_letter_id);
    at := penstock.now();
    select * into letter from penstock.dead_letter_overview o where o.dead_letter_id = p_dead_letter_id;
    if not found then
        return;
    end if;
    if coalesce(btrim(p_actor), '') = '' then
        perform penstock.refuse_step('replay', p_dead_letter_id, 'say who replays it');
    end if;
    if letter.replayable is distinct from true then
        perform penstock.refuse_step('replay', p_dead_letter_id, format('jobs of type %s are not replayed', letter.job_type));
    end if;
    if letter.state = 'resolved'
       or (letter.state = 'replaying' and coalesce(letter.replay_status, 'canceled') <> 'canceled') then
        perform penstock.refuse_step('replay', p_dead_letter_id, format('it is %s', letter.state));
    end if;
    if letter.steps_required and (letter.state not in ('validated', 'replaying') or letter.cause is null
        or letter.remediation is null or letter.ticket is null or letter.replay_safe is distinct from true) then
        perform penstock.refuse_step('replay', p_dead_letter_id, format('it is %s: triage, remediate and validate it first', letter.state));
    end if;
    if not p_full_restart and not letter.stage = any(letter.stages) then
        perform penstock.refuse_step('replay', p_dead_letter_id, format('the type has no stage %s any more', letter.stage));
    end if;
    select j.job_id, j.priority, j.limit_key, j.idempotency_key, j.payload,
           least(j.max_attempts, t.max_attempts) as attempts, t.audited, cardinality(t.stages) > 1 as staged,
           case when t.key_max_running is not null or t.key_rate_count is not null then coalesce(j.limit_key, '')
                else j.limit_key end as own_limit_key,
           case when t.dispatch = 'notify' then t.channel end as channel,
           case when p_full_restart then t.stages[1] else letter.stage end as stage
      into original
      from penstock.jobs j join penstock.types t on t.job_type = j.job_type
     where j.job_id = letter.job_id;
    if not found then
        return;
    end if;
    select min(n.n) into ordinal
      from generate_series(letter.replay_count + 1, letter.replay_count + 1000) as n(n)
     where not exists (select from penstock.jobs taken
                        where taken.idempotency_key = original.idempotency_key || '#replay-' || n.n)
       and not exists (select from penstock.kept_keys kept
                        where kept.idempotency_key = original.idempotency_key || '#replay-' || n.n);
    job_id := coalesce(p_job_id, penstock.uuid7());
    stage := original.stage;
    job_type := letter.job_type;
    channel := original.channel;
    insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged,
                               job_type, stage, idempotency_key, limit_key, replay_of_job_id, payload)
    values (job_id, at, at, at, true, original.priority, original.attempts, original.audited, original.staged, job_type, stage,
            original.idempotency_key || '#replay-' || ordinal, original.own_limit_key, original.job_id, original.payload);
    if not p_full_restart then
        insert into penstock.stages (job_id, stage, attempts, first_failure_at, last_failure_at, finished_at, result)
        select replay.job_id, s.stage, s.attempts, s.first_failure_at, s.last_failure_at, s.finished_at, s.result
          from penstock.stages s
         where s.job_id = letter.last_job_id and s.finished_at is not null;
    end if;
    update penstock.jobs j set superseded_by_job_id = replay.job_id, updated_at = at
     where j.job_id in (letter.job_id, letter.last_job_id);
    update penstock.dead_letters d
       set state = 'replaying', replay_count = ordinal, replay_job_id = replay.job_id
     where d.dead_letter_id = p_dead_letter_id;
    insert into penstock.dead_letter_events (dead_letter_id, step, operator, detail)
    values (p_dead_letter_id, 'replayed', left(p_actor, 200),
            jsonb_build_object('job_id', job_id, 'stage', stage, 'full_restart', p_full_restart));
end
$$;

-- ----------------------------------------------------------------------------------- keys and effects

create or replace function penstock.create_key(
    p_key_id text, p_hash bytea, p_scope text, p_home_id uuid, p_user_id uuid, p_name text, p_who text, p_valid interval)
    returns timestamptz
    language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select penstock.note_act('create_key', p_who, jsonb_build_object('key_id', p_key_id, 'scope', p_scope, 'home_id', p_home_id));
    insert into penstock.api_keys (key_id, secret_hash, scope, home_id, user_id, name, created_by, created_at, expires_at)
    values (p_key_id, p_hash, p_scope, p_home_id, p_user_id, p_name, p_who, penstock.now(), penstock.now() + p_valid)
    returning created_at
$$;

create or replace function penstock.revoke_key(p_key_id text, p_who text) returns timestamptz
    language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select penstock.note_act('revoke_key', p_who, jsonb_build_object('key_id', p_key_id))
      from penstock.api_keys k where k.key_id = p_key_id and k.revoked_at is null;
    update penstock.api_keys k
       set revoked_at = coalesce(k.revoked_at, penstock.now()), revoked_by = coalesce(k.revoked_by, p_who),
           revoked_db_user = coalesce(k.revoked_db_user, session_user)
     where k.key_id = p_key_id
    returning k.revoked_at
$$;

drop function penstock.list_keys();
create function penstock.list_keys()
    returns table (key_id text, scope text, home_id uuid, user_id uuid, name text, created_at timestamptz, created_by text,
                   expires_at timestamptz, revoked_at timestamptz, revoked_by text, last_used_at timestamptz, state text,
                   created_db_user name, revoked_db_user name)
    language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select k.key_id, k.scope, k.home_id, k.user_id, k.name, k.created_at, k.created_by, k.expires_at, k.revoked_at,
           k.revoked_by, k.last_used_at,
           case when k.revoked_at is not null then 'revoked' when k.expires_at <= penstock.now() then 'expired'
                else 'valid' end,
           k.created_db_user, k.revoked_db_user
      from penstock.api_keys k
     order by k.created_at desc, k.key_id
$$;
