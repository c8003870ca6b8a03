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
    enrichment       jsonb check (octet_length(enrichment::text) <= 65536), -- summary, tags, language, entities
    failure_code     varchar(50),
    enrichment_round integer not null default 1 check (enrichment_round >= 1), -- rises when it is asked for again
    created_at       timestamptz not null default penstock.now(),
    updated_at       timestamptz not null default penstock.now(),
    check ((status in ('READY_TO_CONFIRM', 'CONFIRMED')) <= (enrichment is not null)),
    check ((status = 'ENRICHMENT_FAILED') = (failure_code is not null))
);
create index items_of_owner on vault.items (owner_id, created_at desc, id desc);

-- A person sees their own items. The worker enriches whatever it is given; its policy comes with its rights.
alter table vault.items enable row level security;
create policy items_of_their_owner on vault.items
    using (owner_id = vault.current_owner()) with check (owner_id = vault.current_owner());

-- What was saved stays as it was, and a status moves along its way only (D-21), whoever types the statement. The row is
-- marked as changed by the rule itself.
create function vault.guard_item() returns trigger
    language plpgsql
as $$
begin
    if (old.id, old.owner_id, old.kind, old.content, old.created_at)
       is distinct from (new.id, new.owner_id, new.kind, new.content, new.created_at) then
        raise exception using errcode = 'PS001',
            message = format('item %s: what was saved cannot be changed', old.id),
            hint = 'Discard the item and save another one.';
    end if;
    if old.status <> new.status and not (
           (old.status = 'ENRICHING' and new.status in ('READY_TO_CONFIRM', 'ENRICHMENT_FAILED', 'DISCARDED'))
        or (old.status = 'READY_TO_CONFIRM' and new.status in ('CONFIRMED', 'DISCARDED'))
        or (old.status = 'ENRICHMENT_FAILED' and new.status in ('ENRICHING', 'DISCARDED'))) then
        raise exception using errcode = 'PS001',
            message = format('item %s is %s and cannot become %s', old.id, old.status, new.status),
            hint = 'Look at the item again: somebody else was faster, or it was never on this way.';
    end if;
    if (old.title, old.enrichment) is distinct from (new.title, new.enrichment)
       and not (old.status = 'ENRICHING' and new.status = 'READY_TO_CONFIRM') then
        raise exception using errcode = 'PS001',
            message = format('item %s is %s: what was found is stored when its enrichment ends', old.id, old.status),
            hint = 'Nothing is enriched twice.';
    end if;
    if old.enrichment_round <> new.enrichment_round
       and not (old.status = 'ENRICHMENT_FAILED' and new.status = 'ENRICHING'
                and new.enrichment_round = old.enrichment_round + 1) then
        raise exception using errcode = 'PS001',
            message = format('item %s: a round follows the one before it, and only after a failure', old.id);
    end if;
    new.updated_at := greatest(penstock.now(), old.updated_at + interval '1 microsecond');
    return new;
end
$$;
create trigger on_its_way before update on vault.items
    for each row execute function vault.guard_item();
