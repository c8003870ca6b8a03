-- One unit, one lock, without the home (A-39, A-59, L-46). Salted by the engine, so that a login which knows both ids and
-- may take any advisory lock cannot take this one.
create or replace function rewrite.unit_lock(p_rewrite_request_id uuid, p_recipient_user_id uuid) returns bigint
    language sql stable
as $$
    select penstock.lock_key('rewrite unit:' || p_rewrite_request_id::text || ':' || p_recipient_user_id::text)
$$;

create or replace function rewrite.lock_unit() returns trigger
    language plpgsql
as $$
declare
    lock bigint := penstock.lock_key('rewrite unit:'
        || coalesce(substr(new.idempotency_key, length('complaint_rewrite:') + 1), new.job_id::text));
begin
    if new.status = 'processing' then
        return case when pg_try_advisory_xact_lock(lock) then new end;
    end if;
    perform pg_advisory_xact_lock(lock);
    return new;
end
$$;

-- The same key in a new wrapping, and a trace of it; false when it was wrapped anew meanwhile, or the home was erased.
create or replace function rewrite.rewrap(p_home uuid, p_was bytea, p_key_id text, p_wrapped bytea) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    update rewrite.home_keys k
       set key_id = p_key_id, wrapped_key = p_wrapped, rewrapped_at = penstock.now()
     where k.home_id = p_home and k.wrapped_key = p_was;
    if not found then
        return false;
    end if;
    perform penstock.note_act('rewrap', session_user, jsonb_build_object('home_id', p_home, 'key_id', p_key_id));
    return true;
end
$$;

-- The first step of an erasure, and the one that cannot be undone: the data key goes, and with it everything sealed. What
-- members wish today goes too, and no key of the HTTP API works for this home any more. Null: there is no such home;
-- false: it was erased before.
create or replace function rewrite.forget_home(p_home uuid) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    erased timestamptz;
begin
    select h.erased_at into erased from rewrite.homes h where h.home_id = p_home for update;
    if not found then
        return null;
    end if;
    update rewrite.homes h set erased_at = penstock.now() where h.home_id = p_home and h.erased_at is null;
    if found then
        perform penstock.note_act('erase_home', session_user, jsonb_build_object('home_id', p_home));
    end if;
    delete from rewrite.home_keys k where k.home_id = p_home;
    delete from rewrite.preferences p where p.home_id = p_home;
    update penstock.api_keys k
       set revoked_at = penstock.now(), revoked_by = 'erasure of its home', revoked_db_user = session_user
     where k.home_id = p_home and k.revoked_at is null;
    return erased is null;
end
$$;
select rewrite.apply_grants();
