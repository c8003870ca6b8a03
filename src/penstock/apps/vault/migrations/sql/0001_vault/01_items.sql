-- Items of a personal vault. What somebody saved and what was found in it stands here and nowhere else.

-- Whose rows this transaction may see; nobody's unless it says so.
create function vault.current_owner() returns uuid
    language sql stable parallel safe
as $$
    select nullif(current_setting('penstock.owner_id', true), '')::uuid
$$;

create table vault.items (
    id               uuid primary key,
    owner_id         uuid not null,
    kind             text not null check (kind in ('text', 'link', 'note')),
    content          text not null check (octet_length(content) <= 1048576),
    status           text not null default 'ENRICHING'
        check (status in ('ENRICHING', 'READY_TO_CONFIRM', 'CONFIRMED', 'DISCARDED', 'ENRICHMENT_FAILED')),
    title            varchar(300),
    enrichment       jsonb,                -- summary, tags, language, entities
    failure_code     varchar(50),
    enrichment_round integer not null default 1 check (enrichment_round >= 1), -- rises when it is asked for again
    created_at       timestamptz not null default penstock.now(),
    updated_at       timestamptz not null default penstock.now(),
    check ((status in ('READY_TO_CONFIRM', 'CONFIRMED')) <= (enrichment is not null)),
    check ((status = 'ENRICHMENT_FAILED') = (failure_code is not null))
);
create index items_of_owner on vault.items (owner_id, created_at desc, id);

-- A person sees their own items. The worker enriches whatever it is given and sees all of them.
alter table vault.items enable row level security;
create policy items_of_their_owner on vault.items
    using (owner_id = vault.current_owner()) with check (owner_id = vault.current_owner());
