-- Beside the engine's own rules, for jobs of this type alone. The test of the type stands in the triggers, so jobs of all
-- other types pay for one comparison.

-- Which round of an item's enrichment a job is: `enrichment:<item>` the first, `enrichment:<item>#2` the second; what the
-- engine adds for a replay does not count. A job without a key is of the first round.
create function vault.round_of(p_key text) returns integer
    language sql immutable parallel safe
as $$
    select coalesce(substring(p_key from '#([0-9]{1,9})(?:#|$)')::integer, 1)
$$;

-- The item that a payload names; null where it is no id, as in a job that somebody made by hand long ago.
create function vault.item_of(p_payload jsonb) returns uuid
    language sql immutable parallel safe
as $$
    select case when p_payload ->> 'item_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                then (p_payload ->> 'item_id')::uuid end
$$;

-- The payload is the id of the item, so no text can come along. The replay of a job whose item has failed puts the item
-- back, or the replay would find nothing to do.
create function vault.begin_job() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
declare
    item uuid := vault.item_of(new.payload);
begin
    if item is null or new.payload - 'item_id' <> '{}'::jsonb then
        raise exception using errcode = 'PS001',
            message = format('job %s: the payload of an enrichment is {"item_id": "<uuid>"} and nothing else', new.job_id),
            hint = 'Save the item first; its text stays in vault.items.';
    end if;
    if new.replay_of_job_id is not null then
        update vault.items i set status = 'ENRICHING', failure_code = null
         where i.id = item and i.status = 'ENRICHMENT_FAILED' and i.enrichment_round = vault.round_of(new.idempotency_key);
    end if;
    return new;
end
$$;
create trigger vault_begin_job before insert on penstock.jobs
    for each row when (new.job_type = 'enrichment')
    execute function vault.begin_job();

-- An item learns that its enrichment has failed for good in the transaction of the terminal move, also when no handler
-- runs: reaper, cancel, deadline (C-62). An item that is past this round is left alone. Locked in the order of every
-- other writer: job, then item.
create function vault.end_job() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
begin
    update vault.items i
       set status = 'ENRICHMENT_FAILED',
           failure_code = case when new.status = 'canceled' then 'CANCELED' else coalesce(new.last_error_code, 'UNKNOWN') end
     where i.id = vault.item_of(new.payload) and i.status = 'ENRICHING'
       and i.enrichment_round = vault.round_of(new.idempotency_key);
    return null;
end
$$;
create trigger vault_end_job after update on penstock.jobs
    for each row when (new.job_type = 'enrichment' and old.status <> new.status and new.status in ('failed', 'canceled'))
    execute function vault.end_job();
