-- The outbox as it was before the engine (D-12). One that is there is left alone, in whatever schema it is; where there is
-- none it is built here, so that version 0002 always has one to take over.

-- The table `enrichment_outbox` of this database, null when there is none. Two cannot be one outbox.
create function vault.find_outbox() returns regclass
    language plpgsql stable
as $$
declare
    found regclass[] := array(
        select c.oid::regclass from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relname = 'enrichment_outbox' and c.relkind in ('r', 'p') and n.nspname !~ '^pg_');
begin
    if cardinality(found) > 1 then
        raise exception using errcode = '55000',
            message = format('there are %s tables called enrichment_outbox: %s', cardinality(found),
                             array_to_string(found, ', ')),
            hint = 'One is taken over; rename the others until that is done.';
    end if;
    return found[1];
end
$$;

do $outbox$
begin
    if vault.find_outbox() is null then
        create table vault.enrichment_outbox (
            id            uuid primary key default gen_random_uuid(),
            item_id       uuid not null,
            status        varchar(20) not null default 'PENDING',
            attempt_count integer not null default 0,
            claimed_at    timestamptz,
            last_error    text,
            created_at    timestamptz not null default now()
        );
        create index enrichment_outbox_pending on vault.enrichment_outbox (created_at) where status = 'PENDING';
        comment on table vault.enrichment_outbox is 'made by version 0001 of the line vault';
    end if;
end
$outbox$;

-- The rights on the outbox, which is a table in version 0001 and a view from 0002 on: producers put rows in, pollers move
-- them. vault.apply_grants() ends with it.
create function vault.apply_outbox_grants(p_roles text[]) returns void
    language plpgsql volatile
as $$
begin
    if to_regclass('vault.enrichment_outbox') is not null then
        if 'penstock_orchestrator' = any(p_roles) then
            grant select, insert on vault.enrichment_outbox to penstock_orchestrator;
        end if;
        if 'penstock_worker' = any(p_roles) then
            grant select, update on vault.enrichment_outbox to penstock_worker;
        end if;
        if 'penstock_operator' = any(p_roles) then
            grant select on vault.enrichment_outbox to penstock_operator;
        end if;
    end if;
    if 'penstock_operator' = any(p_roles) and to_regclass('vault.outbox_takeover') is not null then
        grant select on vault.outbox_takeover to penstock_operator;
        grant select (quarantine_id, problem, at) on vault.outbox_quarantine to penstock_operator;
        grant execute on function vault.quarantined(bigint, integer), vault.retry_quarantine() to penstock_operator;
    end if;
end
$$;
