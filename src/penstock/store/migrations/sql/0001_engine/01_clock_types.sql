-- The clock. Everything that compares or stores a time asks penstock.now(): one clock for all workers (C-22). It is the
-- server's own, and so plain that the planner writes it out: nobody pays for a call.
create function penstock.now() returns timestamptz
    language sql stable parallel safe
as $$
    select statement_timestamp()
$$;

-- Tests wind the clock by a row in here; no application role may write it. While there is one, penstock.now() is another
-- function, which adds the shift.
create table penstock.clock (
    only_row boolean primary key default true check (only_row),
    shift    interval not null
);

create function penstock.set_clock() returns trigger
    language plpgsql
as $clock$
declare
    wound boolean := exists (select from penstock.clock);
    shifted boolean := (select p.prosrc like '%shift%' from pg_proc p where p.oid = 'penstock.now()'::regprocedure);
begin
    if wound and not shifted then
        create or replace function penstock.now() returns timestamptz
            language plpgsql stable parallel safe
        as $now$
        begin
            return statement_timestamp() + coalesce((select shift from penstock.clock), interval '0');
        end
        $now$;
    elsif shifted and not wound then
        create or replace function penstock.now() returns timestamptz
            language sql stable parallel safe
        as $now$
            select statement_timestamp()
        $now$;
    end if;
    return null;
end
$clock$;
create trigger clock_set after insert or update or delete or truncate on penstock.clock
    for each statement execute function penstock.set_clock();

-- A time-ordered uuid (version 7), also where the server has none of its own.
create function penstock.uuid7() returns uuid
    language sql volatile parallel safe
as $$
    select encode(
        set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
            placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
            from 1 for 6), 52, 1), 53, 1), 'hex')::uuid
$$;

-- One row per job type: its policy, written by the workers that serve it, so that SQL callers get the same
-- budgets; and its gates, which operators move: pause, breaker, limits.
create table penstock.types (
    job_type             varchar(50) primary key check (job_type ~ '^[a-z][a-z0-9_.-]*$'),
    policy               jsonb not null,
    policy_version       integer not null default 1,
    stages               text[] not null check (cardinality(stages) > 0),
    max_attempts         smallint not null check (max_attempts > 0),
    priority             smallint not null default 0,
    audited              boolean not null default false,
    stale_counts_attempt boolean not null default true,
    max_reclaims         smallint not null default 5 check (max_reclaims >= 0),
    replayable           boolean not null default true,
    steps_required       boolean not null default false,
    dispatch             text not null default 'notify' check (dispatch in ('notify', 'scheduled')),
    channel              varchar(63) not null default 'penstock_jobs',
    max_payload_bytes    integer not null default 262144 check (max_payload_bytes > 0),
    enqueue_role         name,
    keep_finished        interval,
    keep_keys            interval,
    synced_at            timestamptz not null default penstock.now(),

    paused_at            timestamptz,
    paused_by            text,
    pause_reason         text,

    breaker              text not null default 'closed' check (breaker in ('closed', 'open', 'half_open')),
    breaker_after        smallint not null default 3 check (breaker_after > 0),
    breaker_cooldown     interval not null default interval '60 seconds',
    breaker_failures     integer not null default 0,
    breaker_code         varchar(50),
    breaker_opened_at    timestamptz,
    breaker_probe_at     timestamptz,

    max_running          integer check (max_running > 0),
    rate_count           integer check (rate_count > 0),
    rate_period          interval check (rate_period > interval '0'),
    key_max_running      integer check (key_max_running > 0),
    key_cursor           text,
    key_rate_count       integer check (key_rate_count > 0),
    key_rate_period      interval check (key_rate_period > interval '0'),
    check ((rate_count is null) = (rate_period is null)),
    check ((key_rate_count is null) = (key_rate_period is null)),

    -- A gated type is claimed one type at a time, under its lock; all others go through the set claim.
    gated                boolean not null generated always as (
        paused_at is not null or breaker <> 'closed' or max_running is not null or rate_count is not null
        or key_max_running is not null or key_rate_count is not null) stored
);

-- The starts of the last period of each rate limit. limit_key '' is the type's own, ':' and a key that of the key.
create table penstock.rates (
    job_type   varchar(50) not null,
    limit_key  text not null,
    starts     timestamptz[] not null,
    counts     integer[] not null,
    opens_at   timestamptz,          -- when there is room again; null: there was some after the last claim
    expires_at timestamptz not null, -- from then on the row says nothing
    primary key (job_type, limit_key)
);
create index rates_opening on penstock.rates (job_type, opens_at) where opens_at is not null;
create index rates_expiring on penstock.rates (job_type, expires_at);
