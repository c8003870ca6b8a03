-- Reviews, what was fetched for them and what the critic found. The text of a changelist and of findings stands here and
-- nowhere else.

create table review.reviews (
    review_id      uuid primary key,
    job_id         uuid not null unique,  -- the original job; a replay points at it
    changelist_id  varchar(300) not null check (changelist_id ~ '^[a-z][a-z0-9_-]{0,49}:[^[:cntrl:]]+$'),
    review_version integer not null check (review_version >= 1),
    label          varchar(50),           -- for display only (C-47)
    rerun          boolean not null default false,
    created_at     timestamptz not null default penstock.now(),
    constraint reviews_version unique (changelist_id, review_version)
);
create index reviews_created on review.reviews (created_at, review_id);

-- Every key that was ever answered with a review, also one that came second: a known key always gets the same one (C-47).
create table review.creation_keys (
    idempotency_key varchar(400) primary key,
    review_id       uuid not null references review.reviews,
    created_at      timestamptz not null default penstock.now()
);

create table review.recipients (
    review_id uuid not null references review.reviews,
    recipient varchar(500) not null check (recipient = lower(btrim(recipient))), -- who, for the key of a delivery
    channel   text not null check (channel in ('resend', 'smtp', 'webhook')),
    address   varchar(500) not null,                                             -- where, as it was given
    required  boolean not null default true,
    primary key (review_id, recipient)
);

-- The changelist as it was fetched, once and for all.
create table review.artifacts (
    review_id  uuid primary key references review.reviews,
    revision   varchar(100) not null,   -- the commit, or the provider's id of what was fetched
    facts      jsonb not null,          -- title, author, base and the like, as the source said
    diff       text not null,           -- unified, as it is cut and shown
    skipped    jsonb not null default '[]', -- files that nobody looks at, each with a reason
    part_tokens integer not null check (part_tokens > 0), -- by which it is cut, however the settings change later
    parts      integer not null check (parts >= 0),
    fetched_at timestamptz not null default penstock.now()
);

-- One row per question to the critic, written when it is answered: an answered part is never asked again.
create table review.parts (
    review_id     uuid not null references review.reviews,
    part          integer not null check (part >= 1),
    findings      jsonb not null,       -- those that point into the part
    dropped       integer not null default 0, -- those that do not
    input_tokens  integer not null default 0,
    output_tokens integer not null default 0,
    answered_at   timestamptz not null default penstock.now(),
    primary key (review_id, part)
);

-- Which part the claim of a job has asked about in a batch: the answer comes a day later, and says nothing of it.
create table review.questions (
    job_id    uuid not null,
    claim_seq bigint not null,
    review_id uuid not null references review.reviews,
    part      integer not null check (part >= 1),
    primary key (job_id, claim_seq)
);
