-- Requests, their jobs' details and the slots of their outputs.

create table rewrite.rewrite_requests (
    rewrite_request_id               uuid primary key,
    home_id                          uuid not null references rewrite.homes,
    sender_user_id                   uuid not null,
    recipient_user_id                uuid not null,
    recipient_snapshot_id            uuid not null,
    recipient_preference_snapshot_id uuid not null,
    surface                          text not null check (surface in ('weekly_harmony', 'direct_message', 'other')),
    rewrite_strength                 text not null check (rewrite_strength in ('light_touch', 'full_reframe')),
    source_locale                    varchar(3) not null check (source_locale ~ '^[a-z]{2,3}$' and source_locale <> 'und'),
    target_locale                    varchar(3) not null check (target_locale ~ '^[a-z]{2,3}$' and target_locale <> 'und'),
    source_locale_raw                varchar(35),      -- kept for reports (L-22); no worker may read it
    target_locale_raw                varchar(35),
    lane                             text not null check (
        lane = case when source_locale = target_locale then 'same_language' else 'cross_language' end),
    classifier_result                jsonb not null check (rewrite.is_plain(classifier_result,
        '{classifier_version,detected_language,language_confidence,topics,intent,rewrite_strength,safety_flags}')),
    rewrite_request                  bytea not null,   -- a sealed RewriteRequestV1
    status                           text not null default 'received' check (
        status in ('received', 'queued', 'completed', 'failed', 'canceled')),
    failure_code                     varchar(50) check (failure_code = 'rewrite_unavailable'),
    idempotency_key                  varchar(200),
    fingerprint                      bytea,            -- of what came with the key, under the home's own key
    created_at                       timestamptz not null default penstock.now(),
    status_changed_at                timestamptz not null default penstock.now(),
    rewrite_completed_at             timestamptz,
    sender_reveal_at                 timestamptz,      -- the orchestrator's alone (A-69)

    check ((status = 'completed') = (rewrite_completed_at is not null)),
    check ((status = 'failed') = (failure_code is not null)),
    check ((idempotency_key is null) = (fingerprint is null)),
    foreign key (recipient_snapshot_id, home_id) references rewrite.recipient_snapshots (recipient_snapshot_id, home_id),
    foreign key (recipient_snapshot_id, recipient_user_id)
        references rewrite.recipient_snapshot_members (recipient_snapshot_id, user_id),
    foreign key (recipient_preference_snapshot_id, home_id, recipient_user_id)
        references rewrite.recipient_preference_snapshots (recipient_preference_snapshot_id, home_id, user_id),
    -- What the detail of its job has to agree with (A-28, L-42).
    constraint rewrite_requests_as_decided unique (rewrite_request_id, home_id, sender_user_id, recipient_user_id,
        recipient_snapshot_id, recipient_preference_snapshot_id, source_locale, target_locale, lane)
);
create unique index rewrite_requests_key on rewrite.rewrite_requests (home_id, sender_user_id, idempotency_key)
    where idempotency_key is not null;
create index rewrite_requests_changed on rewrite.rewrite_requests (home_id, status_changed_at);
create index rewrite_requests_created on rewrite.rewrite_requests using brin (created_at);

-- One row per job: identifiers and the route; neither the request nor the classifier's result (C-39).
create table rewrite.rewrite_jobs (
    job_id                           uuid primary key,
    rewrite_request_id               uuid not null,
    home_id                          uuid not null,
    sender_user_id                   uuid not null,
    recipient_user_id                uuid not null,
    recipient_snapshot_id            uuid not null,
    recipient_preference_snapshot_id uuid not null,
    source_locale                    varchar(3) not null,
    target_locale                    varchar(3) not null,
    lane                             text not null,
    routing_decision                 jsonb not null check ((
        rewrite.is_plain(routing_decision, '{provider,adapter_kind,base_url,model,prompt_version,policy_version,execution_mode,cache_eligible,max_retries}')
        and routing_decision ->> 'provider' in ('openai', 'google', 'other')
        and routing_decision ->> 'execution_mode' in ('async', 'batch')
        and jsonb_typeof(routing_decision -> 'adapter_kind') = 'string'
        and jsonb_typeof(routing_decision -> 'base_url') in ('string', 'null')
        and jsonb_typeof(routing_decision -> 'model') = 'string'
        and jsonb_typeof(routing_decision -> 'prompt_version') = 'string'
        and jsonb_typeof(routing_decision -> 'policy_version') = 'string'
        and jsonb_typeof(routing_decision -> 'cache_eligible') = 'boolean'
        and jsonb_typeof(routing_decision -> 'max_retries') = 'number') is true),
    created_at                       timestamptz not null default penstock.now(),
    constraint rewrite_jobs_unit unique (rewrite_request_id, recipient_user_id),
    constraint rewrite_jobs_slot unique (rewrite_request_id, recipient_user_id, home_id, job_id, target_locale),
    unique (job_id, home_id),
    foreign key (rewrite_request_id, home_id, sender_user_id, recipient_user_id, recipient_snapshot_id,
                 recipient_preference_snapshot_id, source_locale, target_locale, lane)
        references rewrite.rewrite_requests (rewrite_request_id, home_id, sender_user_id, recipient_user_id,
                 recipient_snapshot_id, recipient_preference_snapshot_id, source_locale, target_locale, lane)
);
create index rewrite_jobs_home on rewrite.rewrite_jobs (home_id, created_at);

-- The slot of a unit: written once, by the job of this very unit, in its target locale (L-41).
create table rewrite.rewrite_outputs (
    rewrite_request_id         uuid not null,
    recipient_user_id          uuid not null,
    home_id                    uuid not null,
    job_id                     uuid not null,
    output_locale              varchar(3) not null,
    rewrite_response           bytea not null,         -- a sealed RewriteResponseV1
    eval_version               varchar(50) not null check (eval_version <> ''),
    lexicon_version            varchar(50) not null check (lexicon_version <> ''),
    provider_item_completed_at timestamptz,            -- this item's own time (A-98)
    created_at                 timestamptz not null default penstock.now(),
    primary key (rewrite_request_id, recipient_user_id),
    foreign key (rewrite_request_id, recipient_user_id, home_id, job_id, output_locale)
        references rewrite.rewrite_jobs (rewrite_request_id, recipient_user_id, home_id, job_id, target_locale)
);
create index rewrite_outputs_created on rewrite.rewrite_outputs using brin (created_at);

-- What an evaluation refused: the versions and the code, never what it read. The answer itself is kept nowhere (A-48, A-81).
create table rewrite.evaluation_failures (
    job_id          uuid not null,
    attempt         integer not null check (attempt > 0),
    home_id         uuid not null,
    code            varchar(50) not null check (code ~ '^[A-Z0-9_]+$'),
    eval_version    varchar(50) not null check (eval_version <> ''),
    lexicon_version varchar(50) not null check (lexicon_version <> ''),
    created_at      timestamptz not null default penstock.now(),
    primary key (job_id, attempt),
    foreign key (job_id, home_id) references rewrite.rewrite_jobs (job_id, home_id)
);
create index evaluation_failures_created on rewrite.evaluation_failures using brin (created_at);
