-- Audit: every move of an audited job, whoever made it (A-07, Q-76). Append-only.
create table penstock.job_events (
    event_id    bigint generated always as identity primary key,
    job_id      uuid not null,
    at          timestamptz not null,
    from_status text,
    to_status   text not null,
    stage       varchar(50) not null,
    attempt     integer not null,
    claim_seq   bigint not null,
    run_id      uuid,
    worker_id   varchar(100),
    code        varchar(50)
);
create index job_events_job on penstock.job_events (job_id, event_id);
create index job_events_at on penstock.job_events using brin (at);

create function penstock.audit() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
begin
    if tg_op = 'INSERT' then
        insert into penstock.job_events (job_id, at, to_status, stage, attempt, claim_seq)
        values (new.job_id, new.updated_at, new.status, new.stage, new.attempt_count + 1, new.claim_seq);
    else
        insert into penstock.job_events (job_id, at, from_status, to_status, stage, attempt, claim_seq, run_id, worker_id, code)
        values (new.job_id, new.updated_at, old.status, new.status, old.stage, old.attempt_count + 1, new.claim_seq, new.run_id,
                coalesce(new.claimed_by, old.claimed_by),
                case when new.last_error_at is distinct from old.last_error_at or new.status = 'failed' then new.last_error_code end);
    end if;
    return null;
end
$$;

create trigger jobs_audit_insert after insert on penstock.jobs for each row
    when (new.audited) execute function penstock.audit();
create trigger jobs_audit_move after update on penstock.jobs for each row
    when (new.audited and (old.status <> new.status or old.stage <> new.stage))
    execute function penstock.audit();

create function penstock.refuse_rewriting() returns trigger
    language plpgsql
as $$
begin
    if tg_op = 'DELETE' and current_setting('penstock.pruning', true) = 'on' then
        return old;
    end if;
    raise exception using errcode = 'PS002',
        message = format('%s is append-only', tg_table_name),
        hint = 'Retention prunes old rows: penstock run retention.';
end
$$;
create trigger job_events_append_only before update or delete on penstock.job_events for each row
    execute function penstock.refuse_rewriting();
create trigger job_events_never_emptied before truncate on penstock.job_events
    execute function penstock.refuse_rewriting();

-- Runs: one bounded invocation each (Q-77 to Q-79). Skips: ticks with nothing to do (Q-50, Q-82).
create table penstock.runs (
    run_id              uuid primary key,
    function            varchar(100) not null,
    trigger             text not null check (trigger in ('startup', 'notify', 'poll', 'schedule', 'admin', 'follow_up')),
    worker_id           varchar(100) not null,
    profile             text not null,
    schedule            varchar(100),
    due_at              timestamptz,
    started_at          timestamptz not null,
    finished_at         timestamptz,
    max_jobs_per_run    integer not null check (max_jobs_per_run > 0),
    max_runtime_seconds integer not null check (max_runtime_seconds > 0),
    claimed_count       integer not null default 0,
    succeeded_count     integer not null default 0,
    failed_count        integer not null default 0,
    requeued_count      integer not null default 0,
    canceled_count      integer not null default 0,
    lost_count          integer not null default 0,
    left_waiting_count  integer,
    rate_limited_count  integer not null default 0,
    by_model            jsonb not null default '{}',
    by_error            jsonb not null default '{}'
);
create index runs_started on penstock.runs (started_at);
create unique index runs_tick on penstock.runs (schedule, due_at) where due_at is not null;
-- The records of runs that are over; a run that is known is brought up to date.
create function penstock.save_runs(p_runs jsonb) returns void
    language sql volatile
as $$
    insert into penstock.runs as run (run_id, function, trigger, worker_id, profile, started_at, finished_at,
        max_jobs_per_run, max_runtime_seconds, claimed_count, succeeded_count, failed_count, requeued_count,
        canceled_count, lost_count, left_waiting_count, rate_limited_count, by_model, by_error)
    select r.run_id, r.function, r.trigger, r.worker_id, r.profile, penstock.now() - make_interval(secs => r.seconds),
           penstock.now(), r.max_jobs_per_run, r.max_runtime_seconds, r.claimed_count, r.succeeded_count,
           r.failed_count, r.requeued_count, r.canceled_count, r.lost_count, r.left_waiting_count,
           r.rate_limited_count, r.by_model, r.by_error
      from jsonb_to_recordset(p_runs) as r(run_id uuid, function text, trigger text, worker_id text, profile text,
           seconds double precision, max_jobs_per_run integer, max_runtime_seconds integer, claimed_count integer,
           succeeded_count integer, failed_count integer, requeued_count integer, canceled_count integer,
           lost_count integer, left_waiting_count integer, rate_limited_count integer, by_model jsonb, by_error jsonb)
    on conflict (run_id) do update
       set finished_at = excluded.finished_at, claimed_count = excluded.claimed_count,
           succeeded_count = excluded.succeeded_count, failed_count = excluded.failed_count,
           requeued_count = excluded.requeued_count, canceled_count = excluded.canceled_count,
           lost_count = excluded.lost_count, left_waiting_count = excluded.left_waiting_count,
           rate_limited_count = excluded.rate_limited_count, by_model = excluded.by_model, by_error = excluded.by_error
$$;

create table penstock.skips (
    skip_id  bigint generated always as identity primary key,
    function varchar(100) not null,
    at       timestamptz not null,
    reason   text not null
);
create index skips_at on penstock.skips using brin (at);

create table penstock.workers (
    worker_id    varchar(100) primary key,
    instance     uuid not null,
    host         text not null,
    pid          integer not null,
    version      text not null,
    types        text[] not null,
    concurrency  integer not null,
    started_at   timestamptz not null,
    heartbeat_at timestamptz not null,
    stopped_at   timestamptz,
    running      integer not null default 0,
    rss_bytes    bigint,
    notify       text,                                     -- as its settings say: when its own enqueues poke
    poll_seconds double precision,                         -- and how long it pauses between fallback polls
    process      text                                      -- which process its pid was: machine, space of pids, start
);

-- Schedules: what is due when. A tick is one due time; it is used up in the same statement that records its run,
-- its skip or its job, so two schedulers never run one tick twice. claim_seq is the fence between them.
create table penstock.schedules (
    schedule         varchar(100) primary key,
    function         varchar(100),
    job_type         varchar(50),
    payload          jsonb not null default '{}',
    cron             text,
    every            interval check (every >= interval '1 second'),
    timezone         text not null default 'UTC',
    source           varchar(100) not null default 'app',  -- the application that declares it
    enabled          boolean not null default true,        -- the operators' switch; declarations leave it alone
    retired_at       timestamptz,                          -- no longer declared
    next_due_at      timestamptz not null,
    last_due_at      timestamptz,
    last_ran_at      timestamptz,
    missed_count     bigint not null default 0,
    requested_at     timestamptz,                          -- an operator asks for a run beside the cadence
    requested_by     text,
    claimed_by       varchar(100),
    claim_seq        bigint not null default 0,
    lease_expires_at timestamptz,
    check ((function is null) <> (job_type is null)),
    check ((cron is null) <> (every is null)),
    check ((requested_at is null) = (requested_by is null))
);

-- Workers claim schedules, so they may write here; to ask for a run by hand is for operators alone (Q-47).
create function penstock.refuse_strangers() returns trigger
    language plpgsql
as $$
declare
    operator oid := to_regrole('penstock_operator');
begin
    if pg_has_role(session_user, (select n.nspowner from pg_namespace n where n.nspname = 'penstock'), 'member')
       or (operator is not null and pg_has_role(session_user, operator, 'member')) then
        return new;
    end if;
    raise exception using errcode = '42501', message = format('%s may not ask for a run of %s', session_user, new.schedule),
        hint = 'Log in as a member of penstock_operator.';
end
$$;
create trigger schedules_begin_unasked before insert on penstock.schedules for each row
    when (new.requested_at is not null)
    execute function penstock.refuse_strangers();
create trigger schedules_asked_by_operators before update on penstock.schedules for each row
    when (new.requested_at is not null and new.requested_at is distinct from old.requested_at)
    execute function penstock.refuse_strangers();

create table penstock.alerts (
    alert_id        bigint generated always as identity primary key,
    kind            varchar(50) not null,
    severity        text not null check (severity in ('info', 'alert', 'page', 'escalation')),
    subject         jsonb not null default '{}',
    created_at      timestamptz not null default penstock.now(),
    acknowledged_at timestamptz,
    acknowledged_by text,
    announced_at    timestamptz,
    announce_tries  smallint not null default 0,
    check ((acknowledged_at is null) = (acknowledged_by is null))
);
create index alerts_open on penstock.alerts (created_at) where acknowledged_at is null;
create index alerts_unannounced on penstock.alerts (alert_id) where announced_at is null;

-- Workers announce alerts, whoever raised them (R-14); this tells them to look.
create function penstock.tell_of_alerts() returns trigger
    language plpgsql
as $$
begin
    perform pg_notify('penstock_control', '{"alerts": true}');
    return null;
end
$$;
create trigger alerts_told after insert on penstock.alerts for each statement
    execute function penstock.tell_of_alerts();

-- Outside effects (C-61): intent first, then performed with a token, then marked; settled before ever repeated.
create table penstock.effects (
    effect_key      text primary key,
    kind            varchar(50) not null,
    token           text not null,
    job_id          uuid,
    claim_seq       bigint,
    intent_id       uuid,
    holds_claim     boolean not null default false,
    state           text not null default 'intended' check (state in ('intended', 'done', 'uncertain', 'abandoned')),
    perform_count   integer not null default 1,
    intended_at     timestamptz not null,
    settled_at      timestamptz,
    done_at         timestamptz,
    adopted_by      varchar(100), -- the recovery that is finding out about it …
    adopted_until   timestamptz,  -- … until then
    result          jsonb,
    check ((state = 'done') = (done_at is not null))
);
create index effects_job on penstock.effects (job_id);
create index effects_open on penstock.effects (kind, intended_at) where state in ('intended', 'uncertain');
create index effects_ended on penstock.effects using brin ((coalesce(done_at, settled_at)));
create table penstock.effect_attempts (
    attempt_id bigint generated always as identity primary key,
    effect_key text not null,
    at         timestamptz not null,
    action     text not null check (action in ('intend', 'perform', 'settle', 'mark')),
    outcome    varchar(50) not null
);
create index effect_attempts_key on penstock.effect_attempts (effect_key);
create index effect_attempts_at on penstock.effect_attempts using brin (at);

-- Dead letters: exactly one per terminally failed job; a replay shares its original's row (C-02, C-51).
create table penstock.dead_letters (
    dead_letter_id    uuid primary key,
    job_id            uuid not null unique,
    last_job_id       uuid not null,
    job_type          varchar(50) not null,
    stage             varchar(50) not null,
    error_class       varchar(50) not null,
    retryable         boolean not null,
    reason            text not null check (reason in ('non_retryable', 'budget_exhausted', 'integrity')),
    last_stack        text not null,
    sanitized_context jsonb not null,
    attempts          integer not null,
    first_failure_at  timestamptz not null,
    last_failure_at   timestamptz not null,
    created_at        timestamptz not null,
    state             text not null default 'open'
        check (state in ('open', 'triaged', 'remediated', 'validated', 'replaying', 'resolved')),
    cause             text check (cause in ('transient', 'data', 'auth_config', 'code_defect')),
    remediation       text,
    ticket            text,
    replay_safe       boolean,
    replay_count      integer not null default 0,
    replay_job_id     uuid,
    escalated_at      timestamptz,
    notes             text,
    closed_at         timestamptz,
    check (first_failure_at <= last_failure_at),
    -- No step without its evidence, also by hand-typed SQL (E-34 to E-44). Which types need which steps is policy.
    check (state not in ('triaged', 'remediated', 'validated') or cause is not null),
    check (state not in ('remediated', 'validated') or remediation is not null),
    check (state <> 'validated' or (ticket is not null and replay_safe)),
    check (state <> 'replaying' or replay_job_id is not null),
    check ((state = 'resolved') = (closed_at is not null)),
    check (state <> 'resolved' or notes is not null)
);
create index dead_letters_last_job on penstock.dead_letters (last_job_id);
create index dead_letters_open on penstock.dead_letters (job_type, error_class, created_at) where state <> 'resolved';
create table penstock.dead_letter_events (
    event_id       bigint generated always as identity primary key,
    dead_letter_id uuid not null,
    at             timestamptz not null default penstock.now(),
    step           text not null,
    operator       text not null default session_user,
    detail         jsonb not null default '{}'
);
create index dead_letter_events_letter on penstock.dead_letter_events (dead_letter_id);
create trigger dead_letter_events_append_only before update or delete on penstock.dead_letter_events for each row
    execute function penstock.refuse_rewriting();
create trigger dead_letter_events_never_emptied before truncate on penstock.dead_letter_events
    execute function penstock.refuse_rewriting();

-- A dead letter with what decides about its next step: the type's policy, and what became of its replay.
create view penstock.dead_letter_overview with (security_invoker = true) as
    select d.*, t.replayable, t.steps_required, t.stages, r.status as replay_status,
           exists (select from penstock.jobs j where j.job_id = d.job_id) as has_job,
           (select count(*) from penstock.effects e
             where e.job_id in (d.job_id, d.last_job_id, d.replay_job_id) and e.state in ('intended', 'uncertain')) as open_effects
      from penstock.dead_letters d
      left join penstock.types t on t.job_type = d.job_type
      left join penstock.jobs r on r.job_id = d.replay_job_id;
