-- One durable row per job, of every type (C-17). Hot: no foreign keys, partial indexes only beside the primary key.
create table penstock.jobs (
    job_id               uuid primary key,
    created_at           timestamptz not null,
    updated_at           timestamptz not null,
    run_at               timestamptz not null default penstock.now(),
    claimed_at           timestamptz,
    lease_expires_at     timestamptz,
    finished_at          timestamptz,
    first_failure_at     timestamptz,
    last_error_at        timestamptz,
    claim_seq            bigint not null default 0,
    attempt_count        integer not null default 0,
    max_attempts         smallint not null,
    reclaim_count        smallint not null default 0,
    priority             smallint not null default 0,
    ready                boolean not null,
    audited              boolean not null default false,
    staged               boolean not null default false,
    status               text not null default 'queued',
    job_type             varchar(50) not null,
    stage                varchar(50) not null,
    claimed_by           varchar(100),
    run_id               uuid,
    idempotency_key      text,
    limit_key            text,
    last_error_code      varchar(50),
    last_error_message   text,
    replay_of_job_id     uuid,
    superseded_by_job_id uuid,
    provider_batch_id    text,
    payload              jsonb not null default '{}',

    constraint jobs_status_known check (status in
        ('queued', 'processing', 'batch_submitted', 'completed', 'failed', 'canceled')),
    constraint jobs_lease_while_processing check (
        (status = 'processing') = (lease_expires_at is not null)
        and (status <> 'processing' or (claimed_by is not null and claimed_at is not null))),
    constraint jobs_finished_when_terminal check (
        (status in ('completed', 'failed', 'canceled')) = (finished_at is not null)),
    constraint jobs_failed_says_why check (
        status <> 'failed' or (last_error_code is not null and last_error_at is not null)),
    constraint jobs_counts check (attempt_count >= 0 and max_attempts > 0 and reclaim_count >= 0),
    -- A claim returns these two, and Python's calendar has the years 1 to 9999, in whatever zone: a row that no worker can
    -- read would end one worker after the other. Infinity is none of these years either.
    constraint jobs_times_readable check (
        run_at >= '0002-01-01 00:00:00+00' and run_at < '9999-01-01 00:00:00+00'
        and created_at >= '0002-01-01 00:00:00+00' and created_at < '9999-01-01 00:00:00+00')
) with (
    -- Rows change two or three times and then rest. Vacuum early, so that the hot indexes stay short.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_analyze_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1
);

-- Claim order (C-59). Jobs that are not due yet are not ready, hence not in here.
create index idx_outbox_runnable on penstock.jobs (job_type, priority, created_at, job_id)
    where status = 'queued' and ready;
create index jobs_not_due on penstock.jobs (job_type, run_at)
    where status = 'queued' and not ready;
create index idx_outbox_expired_lease on penstock.jobs (lease_expires_at)
    where status = 'processing' and lease_expires_at is not null;
create unique index jobs_idempotency_key on penstock.jobs (idempotency_key)
    where idempotency_key is not null;
create index jobs_runnable_by_key on penstock.jobs (job_type, limit_key, priority, created_at, job_id)
    where status = 'queued' and ready and limit_key is not null;
create index jobs_running_by_key on penstock.jobs (job_type, limit_key)
    where status = 'processing' and limit_key is not null;
create index jobs_failed on penstock.jobs (finished_at)
    where status = 'failed';
create index jobs_batch_submitted on penstock.jobs (job_type, updated_at)
    where status = 'batch_submitted';
-- Retention finds finished rows by block ranges: costs nothing to keep while jobs finish.
create index jobs_finished on penstock.jobs using brin (finished_at) with (pages_per_range = 32, autosummarize = on);

-- Legal moves (C-03), also for hand-typed SQL. Fires only on an illegal row, so legal ones pay for the test alone.
create function penstock.refuse_illegal_change() returns trigger
    language plpgsql
as $$
begin
    if tg_op <> 'UPDATE' and current_setting('penstock.importing', true) = 'on' then
        return coalesce(new, old); -- history: 05_history.sql
    end if;
    if tg_op = 'INSERT' then
        raise exception using errcode = 'PS001',
            message = format('a new job must be queued and unclaimed, not %s', new.status),
            hint = 'Use penstock.enqueue(...).';
    elsif tg_op = 'DELETE' then
        raise exception using errcode = 'PS001',
            message = format('job %s is %s and cannot be deleted', old.job_id, old.status),
            hint = 'Cancel it first: select penstock.cancel(job_id, who, why); retention removes finished jobs.';
    elsif old.status <> new.status then
        raise exception using errcode = 'PS001',
            message = format('job %s is %s and cannot become %s', old.job_id, old.status, new.status),
            hint = 'Terminal jobs stay as they are: replay a dead letter to run its work again.';
    else
        raise exception using errcode = 'PS001',
            message = format('job %s: its identity, its payload, its fence or its first provider batch cannot be changed', old.job_id),
            hint = 'Cancel the job and enqueue a new one.';
    end if;
end
$$;

create trigger jobs_begin_queued before insert on penstock.jobs for each row
    when (new.status <> 'queued' or new.claim_seq <> 0)
    execute function penstock.refuse_illegal_change();

create trigger jobs_legal_moves before update on penstock.jobs for each row
    when (not (
            old.status = new.status
            or (old.status = 'queued' and new.status = 'processing' and new.claim_seq > old.claim_seq)
            or (old.status = 'processing' and new.status in ('completed', 'queued', 'failed', 'canceled', 'batch_submitted'))
            or (old.status = 'batch_submitted' and new.status in ('completed', 'queued', 'failed', 'canceled'))
            or (old.status = 'queued' and new.status = 'canceled'))
        or new.claim_seq < old.claim_seq
        or new.job_id <> old.job_id
        or new.job_type <> old.job_type
        or new.created_at <> old.created_at
        or new.idempotency_key is distinct from old.idempotency_key
        or (old.provider_batch_id is not null and new.provider_batch_id is distinct from old.provider_batch_id))
    execute function penstock.refuse_illegal_change();

-- What a job carries, its route included, is the same on every attempt (C-40, A-65). Bound to the column, so that moves,
-- which never name it, pay nothing.
create trigger jobs_keep_their_payload before update of payload on penstock.jobs for each row
    when (new.payload is distinct from old.payload)
    execute function penstock.refuse_illegal_change();

create trigger jobs_end_before_leaving before delete on penstock.jobs for each row
    when (old.status not in ('completed', 'failed', 'canceled'))
    execute function penstock.refuse_illegal_change();

-- updated_at moves on every change (Q-26). The engine sets it itself; this is for everybody else.
create function penstock.touch() returns trigger
    language plpgsql
as $$
begin
    new.updated_at := greatest(penstock.now(), old.updated_at + interval '1 microsecond');
    return new;
end
$$;

create trigger jobs_touch before update on penstock.jobs for each row
    when (new.updated_at is not distinct from old.updated_at)
    execute function penstock.touch();

-- Stages of staged jobs: budget and result of each (C-12). A job of one stage keeps both in its own row.
create table penstock.stages (
    job_id           uuid not null,
    stage            varchar(50) not null,
    attempts         integer not null default 0 check (attempts >= 0),
    first_failure_at timestamptz,
    last_failure_at  timestamptz,
    finished_at      timestamptz,
    result           jsonb,
    primary key (job_id, stage)
);

-- One row for each stage that a job has touched, whatever its type; the last stage ends with its job.
create view penstock.job_stages with (security_invoker = true) as
    select s.job_id, s.stage, s.attempts, s.first_failure_at, s.last_failure_at,
           coalesce(s.finished_at, case when j.status = 'completed' and j.stage = s.stage then j.finished_at end) as finished_at,
           s.result
      from penstock.stages s
      left join penstock.jobs j on j.job_id = s.job_id
    union all
    select j.job_id, j.stage, case when j.staged then 0 else j.attempt_count end,
           case when not j.staged then j.first_failure_at end, case when not j.staged then j.last_error_at end,
           case when j.status = 'completed' then j.finished_at end, null::jsonb
      from penstock.jobs j
     where not j.staged or not exists (select from penstock.stages s where s.job_id = j.job_id and s.stage = j.stage);

-- Keys of pruned jobs: a forgotten key would be a second effect (C-65). kept_until null: for ever.
create table penstock.kept_keys (
    idempotency_key text primary key,
    job_id          uuid not null,
    payload         jsonb not null,
    kept_until      timestamptz
);
create index kept_keys_job on penstock.kept_keys (job_id);
create index kept_keys_until on penstock.kept_keys (kept_until) where kept_until is not null;
