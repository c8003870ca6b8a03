-- What is remembered of a take-over.

create table vault.outbox_takeover (
    only_row      boolean primary key default true check (only_row),
    source_schema name not null,          -- where the outbox was, and where the view of its name stands now
    taken_at      timestamptz not null,
    seconds       double precision not null, -- for which its lock was held, but for the commit
    found         bigint not null,        -- rows
    moved         jsonb not null,         -- how many became queued, processing, completed, failed
    given_back    bigint not null,        -- of the queued: claims that had run out
    quarantined   bigint not null
);

-- Rows that could not become a job, as they were, each with the problem that it has. Nothing is dropped in silence.
create table vault.outbox_quarantine (
    quarantine_id bigint generated always as identity primary key,
    "row"         jsonb not null,
    problem       text not null,
    at            timestamptz not null default penstock.now()
);

-- What a job has no place for, of rows that have more than 004 knows: ids that are no uuid, columns of somebody's own.
create table vault.outbox_extras (
    job_id uuid primary key,
    "row"  jsonb not null
);

-- While the take-over runs: the rows that moved before the lock, and where they stood.
create table vault.outbox_early (
    job_id uuid primary key,
    place  tid not null,
    born   text not null
);
