-- Keys and erasure, for operators. A wrapped key says nothing to whoever lacks the key that wraps it, and an operator has
-- no right to read what it opens.

-- Which keys of the settings are in use, and by how many homes.
create function rewrite.key_usage() returns table (key_id varchar, homes bigint, last_rewrapped_at timestamptz)
    language sql stable security definer set search_path = pg_catalog
as $$
    select k.key_id, count(*), max(k.rewrapped_at) from rewrite.home_keys k group by k.key_id order by k.key_id
$$;

-- The next homes whose key is not wrapped by p_key_id yet, in the order of their ids.
create function rewrite.keys_to_rewrap(p_key_id text, p_after uuid, p_limit integer)
    returns table (home_id uuid, key_id varchar, wrapped_key bytea)
    language sql stable security definer set search_path = pg_catalog
as $$
    select k.home_id, k.key_id, k.wrapped_key
      from rewrite.home_keys k
     where k.key_id <> p_key_id and k.home_id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
     order by k.home_id
     limit p_limit
$$;

-- The same key in a new wrapping; false when somebody else has wrapped it anew, or the home was erased.
create function rewrite.rewrap(p_home uuid, p_was bytea, p_key_id text, p_wrapped bytea) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
begin
    update rewrite.home_keys k
       set key_id = p_key_id, wrapped_key = p_wrapped, rewrapped_at = penstock.now()
     where k.home_id = p_home and k.wrapped_key = p_was;
    return found;
end
$$;

-- The first step of an erasure, and the one that cannot be undone: the data key goes, and with it everything sealed. What
-- members wish today goes too, and nobody holds a key of the HTTP API for this home any more. Null: there is no such home; false: it was erased before.
create function rewrite.forget_home(p_home uuid) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    erased timestamptz;
begin
    select h.erased_at into erased from rewrite.homes h where h.home_id = p_home for update;
    if not found then
        return null;
    end if;
    update rewrite.homes h set erased_at = penstock.now() where h.home_id = p_home and h.erased_at is null;
    delete from rewrite.home_keys k where k.home_id = p_home;
    delete from rewrite.preferences p where p.home_id = p_home;
    update penstock.api_keys k set revoked_at = penstock.now(), revoked_by = 'erasure of its home'
     where k.home_id = p_home and k.revoked_at is null;
    return erased is null;
end
$$;

-- The second: its open jobs end as canceled, a set at a time; how many that were.
create function rewrite.cancel_open_jobs(p_home uuid, p_who text, p_limit integer) returns integer
    language sql volatile security definer set search_path = pg_catalog
as $$
    select count(penstock.cancel(open.job_id, p_who, 'its home was erased'))::integer
      from (select d.job_id
              from rewrite.rewrite_jobs d
              join penstock.jobs j on j.job_id = d.job_id
             where d.home_id = p_home and j.status in ('queued', 'processing', 'batch_submitted')
               and exists (select from rewrite.homes h where h.home_id = p_home and h.erased_at is not null)
             order by d.job_id
             limit p_limit) as open
$$;

-- The third: what providers keep of its batches is to go. A batch that holds items of others runs on and loses its files
-- when it is collected; one that holds nobody else's open items is canceled at its provider.
create function rewrite.erase_files(p_home uuid)
    returns table (batches bigint, due_now bigint, shared bigint, canceled bigint)
    language sql volatile security definer set search_path = pg_catalog
as $$
    with mine as materialized (
        select distinct i.batch_id
          from rewrite.rewrite_jobs d
          join penstock.batch_items i on i.job_id = d.job_id
          join rewrite.homes h on h.home_id = d.home_id and h.erased_at is not null
         where d.home_id = p_home
    ), others as materialized (
        select distinct i.batch_id
          from mine
          join penstock.batch_items i on i.batch_id = mine.batch_id and i.state = 'open'
         where not exists (select from rewrite.rewrite_jobs d where d.job_id = i.job_id and d.home_id = p_home)
    ), asked as (
        update penstock.batches b
           set erase_asked_at = coalesce(b.erase_asked_at, penstock.now()), files_due_at = null,
               cancel_asked_at = case when b.state = 'submitted' and others.batch_id is null
                                      then coalesce(b.cancel_asked_at, penstock.now()) else b.cancel_asked_at end,
               next_poll_at = case when b.state = 'submitted' and others.batch_id is null
                                   then penstock.now() else b.next_poll_at end
          from mine left join others on others.batch_id = mine.batch_id
         where b.batch_id = mine.batch_id and b.files_deleted_at is null
        returning b.state, others.batch_id is not null as shared
    )
    select count(*), count(*) filter (where a.state in ('collected', 'abandoned')),
           count(*) filter (where a.state not in ('collected', 'abandoned') and a.shared),
           count(*) filter (where a.state = 'submitted' and not a.shared)
      from asked a
$$;
