-- Homes, users and what recipients wish. Every table here is bound to a home by row-level security (see 05_isolation.sql).

-- The home that the transaction works for; every transaction of an application role names one before it sees a row.
create function rewrite.current_home() returns uuid
    language sql stable parallel safe
as $$
    select nullif(current_setting('penstock.home_id', true), '')::uuid
$$;

-- Whether a document holds exactly these members, and labels alone: a string is printable ASCII without a blank, so that
-- no sentence of anybody fits into it (Q-41, C-39).
create function rewrite.is_plain(p_document jsonb, p_members text[]) returns boolean
    language sql immutable parallel safe
as $$
    select case when jsonb_typeof(p_document) = 'object'
                then p_document ?& p_members and p_document - p_members = '{}'::jsonb
                     and not exists (select from jsonb_path_query(p_document, 'strict $.**') as part(value)
                                      where jsonb_typeof(part.value) = 'string'
                                        and (part.value #>> '{}' !~ '^[!-~]+$' or length(part.value #>> '{}') > 500))
                else false end
$$;

create table rewrite.homes (
    home_id    uuid primary key,
    created_at timestamptz not null default penstock.now(),
    erased_at  timestamptz               -- its data key is gone: nobody can read its text again
);

-- One data key per home, wrapped by a key of the settings. Without its row the home's text is noise.
create table rewrite.home_keys (
    home_id      uuid primary key references rewrite.homes,
    key_id       varchar(50) not null,   -- which key of the settings wraps it
    wrapped_key  bytea not null,
    created_at   timestamptz not null default penstock.now(),
    rewrapped_at timestamptz
);
create index home_keys_key on rewrite.home_keys (key_id, home_id);

create table rewrite.users (
    user_id    uuid primary key,
    locale_raw varchar(35),              -- as the profile has it; may be missing or wrong (L-24)
    created_at timestamptz not null default penstock.now()
);

create table rewrite.home_members (
    home_id   uuid not null references rewrite.homes,
    user_id   uuid not null references rewrite.users,
    joined_at timestamptz not null default penstock.now(),
    primary key (home_id, user_id)
);
create index home_members_user on rewrite.home_members (user_id);

-- What a member wishes today. Frozen into a snapshot with every request; no worker ever reads this (L-17).
create table rewrite.preferences (
    home_id       uuid not null,
    user_id       uuid not null,
    tone          varchar(50),
    blocked_terms bytea,                 -- sealed
    updated_at    timestamptz not null default penstock.now(),
    primary key (home_id, user_id),
    foreign key (home_id, user_id) references rewrite.home_members on delete cascade
);

-- Who a request is for, as it was when the request was made (A-29). Exactly one member in this version (C-32).
create table rewrite.recipient_snapshots (
    recipient_snapshot_id uuid primary key,
    home_id               uuid not null references rewrite.homes,
    created_at            timestamptz not null default penstock.now(),
    unique (recipient_snapshot_id, home_id)
);
create table rewrite.recipient_snapshot_members (
    recipient_snapshot_id uuid not null,
    home_id               uuid not null,
    user_id               uuid not null,
    primary key (recipient_snapshot_id, user_id),
    foreign key (recipient_snapshot_id, home_id) references rewrite.recipient_snapshots (recipient_snapshot_id, home_id)
);
create unique index recipient_snapshot_one_member on rewrite.recipient_snapshot_members (recipient_snapshot_id);

-- What the recipient wished at that moment (L-16).
create table rewrite.recipient_preference_snapshots (
    recipient_preference_snapshot_id uuid primary key,
    home_id                          uuid not null references rewrite.homes,
    user_id                          uuid not null,
    locale_raw                       varchar(35),
    tone                             varchar(50),
    blocked_terms                    bytea,      -- sealed
    created_at                       timestamptz not null default penstock.now(),
    unique (recipient_preference_snapshot_id, home_id, user_id)
);
