-- The log of deliveries: one row per changelist, recipient and version, which stands for the one intent that this
-- recipient is told (N-35, N-36). Each is an effect in the engine's ledger; this row says what people ask about it.

create table review.deliveries (
    delivery_id           uuid primary key,
    review_id             uuid not null references review.reviews,
    changelist_id         varchar(300) not null,
    recipient             varchar(500) not null,
    review_version        integer not null,
    channel               text not null check (channel in ('resend', 'smtp', 'webhook')),
    address               varchar(500) not null,
    required              boolean not null,
    promise               text not null check (promise in ('at_most_once', 'at_least_once')), -- what the channel can keep
    token                 char(64) not null unique,
    payload               bytea,                   -- what is sent, byte for byte, every time; none: its channel could not write it yet
    status                text not null default 'pending' check (status in ('pending', 'sent', 'failed', 'reconciling')),
    send_count            integer not null default 0 check (send_count >= 0), -- sends that may have happened
    first_send_at         timestamptz,             -- a provider's window for its key counts from here
    send_started_at       timestamptz,             -- the intent of the last send (C-42) …
    intent_id             uuid,                    -- … which is counted once, however often it is written
    notification_id       varchar(500),
    notified_at           timestamptz,
    provider_confirmed_at timestamptz,
    reconciled_at         timestamptz,             -- a doubt about it was settled
    looked_up_at          timestamptz,             -- a sweep has asked its provider
    last_error_code       varchar(50),
    waived_by             varchar(100),            -- an operator has excused this recipient
    opened_by_job_id      uuid,                    -- the last replay that tried it again
    cleared_count         integer not null default 0, -- how often a provider knew nothing of what was marked as sent
    created_at            timestamptz not null default penstock.now(),
    constraint deliveries_identity unique (changelist_id, recipient, review_version)
    -- Nothing ties notified_at to notification_id: a row that breaks the order must be able to stand here, and be found.
);
create index deliveries_review on review.deliveries (review_id);
create index deliveries_unconfirmed on review.deliveries (notified_at)
    where notified_at is not null and provider_confirmed_at is null;
create index deliveries_reconciling on review.deliveries (created_at) where status = 'reconciling';
create index deliveries_cleared on review.deliveries (review_id) where status = 'pending' and cleared_count > 0;
create index deliveries_newest on review.deliveries (created_at);

-- Every call to a provider about a delivery, and what came of it (N-20). A send stands here before it is made: one that
-- is `started` for ever was cut off, and nobody knows how far it came.
create table review.delivery_attempts (
    attempt_id  bigint generated always as identity primary key,
    delivery_id uuid not null references review.deliveries,
    job_id      uuid,                              -- none: a sweep or an operator
    attempt     integer not null,                  -- the ordinal of the send, from 1
    action      text not null check (action in ('send', 'lookup')),
    outcome     varchar(50) not null,
    at          timestamptz not null default penstock.now()
);
create index delivery_attempts_delivery on review.delivery_attempts (delivery_id);
