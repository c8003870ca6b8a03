-- How long records are kept, where no worker can write. A caller may ask for longer; what it asks for below this waits for
-- an operator. Nothing younger than a day is ever pruned.
create table penstock.retention (
    what    varchar(50) primary key,
    keep    interval not null check (keep >= interval '1 day'),
    set_at  timestamptz not null default penstock.now(),
    set_by  text not null default session_user,
    db_user name not null default session_user
);
insert into penstock.retention (what, keep, set_by)
values ('audit', interval '365 days', 'penstock'), ('runs', interval '90 days', 'penstock'), ('alerts', interval '90 days', 'penstock');

-- What rules for rows of one kind: what the caller asks for, and never less than what is stored or a day.
create function penstock.keep_for(p_what text, p_asked interval) returns interval
    language sql stable set search_path = pg_catalog, pg_temp
as $$
    select greatest(p_asked, coalesce((select r.keep from penstock.retention r where r.what = p_what), interval '1 day'))
$$;

create function penstock.set_retention(p_what text, p_keep interval, p_actor text) returns void
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if p_keep is null or p_keep < interval '1 day' then
        raise exception using errcode = '22023', message = format('retention is a day or longer, not %s', p_keep);
    end if;
    update penstock.retention r
       set keep = p_keep, set_at = penstock.now(), set_by = left(p_actor, 200), db_user = session_user
     where r.what = p_what;
    if not found then
        raise exception using errcode = '22023', message = format('retention knows no records called %L', p_what),
            hint = 'It knows ' || (select string_agg(r.what, ', ' order by r.what) from penstock.retention r) || '.';
    end if;
    perform penstock.note_act('retention', p_actor, jsonb_build_object('what', p_what, 'keep', p_keep::text));
end
$$;

drop view penstock.prunable_jobs;
create view penstock.prunable_jobs with (security_invoker = true) as
    select j.job_id, j.finished_at, j.idempotency_key, case when t.keep_keys is not null then greatest(t.keep_keys, interval '1 day') end as keep_keys
      from penstock.jobs j
      join penstock.types t on t.job_type = j.job_type
     where j.finished_at < penstock.now() - t.keep_finished
       and j.finished_at < penstock.now() - interval '1 day'
       and not exists (select from penstock.dead_letters d
                        where d.job_id = coalesce(j.replay_of_job_id, j.job_id) and d.state <> 'resolved')
       and not exists (select from penstock.jobs r where r.job_id = j.superseded_by_job_id);

create or replace view penstock.prunable_effects with (security_invoker = true) as
    select e.effect_key, coalesce(e.done_at, e.settled_at) as ended_at
      from penstock.effects e
      join penstock.types t on t.job_type = split_part(e.effect_key, ':', 1)
     where e.state in ('done', 'abandoned') and coalesce(e.done_at, e.settled_at) < penstock.now() - t.keep_keys
       and coalesce(e.done_at, e.settled_at) < penstock.now() - interval '1 day'
       and not exists (select from penstock.jobs j where j.job_id = e.job_id)
       and not exists (select from penstock.kept_keys k where k.job_id = e.job_id)
    union all
    -- The intents of batch submissions are named after the batch; they stay as long as its item does.
    select e.effect_key, coalesce(e.done_at, e.settled_at)
      from penstock.effects e
     where e.kind = 'batch_submission' and e.state in ('done', 'abandoned')
       and coalesce(e.done_at, e.settled_at) < penstock.now() - interval '1 day'
       and not exists (select from penstock.jobs j where j.job_id = e.job_id)
       and not exists (select from penstock.batch_items i where i.job_id = e.job_id);

create or replace function penstock.keep_keys(p_job_ids uuid[]) returns void
    language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    insert into penstock.kept_keys as kept (idempotency_key, job_id, payload, kept_until)
    select p.idempotency_key, p.job_id, j.payload, penstock.now() + p.keep_keys
      from penstock.prunable_jobs p join penstock.jobs j on j.job_id = p.job_id
     where p.job_id = any(p_job_ids) and p.idempotency_key is not null
     order by p.idempotency_key
    on conflict (idempotency_key) do update set kept_until = excluded.kept_until
$$;

-- The audit outlives its job: rows go when they are old enough and the job is gone.
create or replace function penstock.prune_audit(p_event_ids bigint[], p_keep interval) returns bigint
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    cutoff timestamptz := penstock.now() - penstock.keep_for('audit', p_keep);
    pruned bigint;
begin
    perform set_config('penstock.pruning', 'on', true);
    with gone as (
        delete from penstock.job_events e
         where e.event_id = any(p_event_ids) and e.at < cutoff
           and not exists (select from penstock.jobs j where j.job_id = e.job_id)
        returning 1
    )
    select count(*) into pruned from gone;
    perform set_config('penstock.pruning', '', true);
    return pruned;
end
$$;

-- A set of rows of one kind that are older than p_keep and than what is stored for them; none at all where p_keep is null
-- and the rows have no end of their own.
create or replace function penstock.prune_old(p_what text, p_keep interval, p_limit integer) returns bigint
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    kind constant text := case when p_what in ('dead_letters', 'spend', 'operator_events') then 'audit'
                               when p_what = 'alerts' then 'alerts' else 'runs' end;
    cutoff constant timestamptz := penstock.now() - case when p_keep is not null then penstock.keep_for(kind, p_keep) end;
    letters uuid[];
    gone bigint;
begin
    perform set_config('penstock.pruning', 'on', true);
    case p_what
    when 'dead_letters' then
        letters := array(
            select d.dead_letter_id from penstock.dead_letters d
             where d.state = 'resolved' and d.closed_at < cutoff
               and not exists (select from penstock.jobs j where j.job_id = d.job_id)
             limit p_limit for update skip locked);
        delete from penstock.dead_letter_events e where e.dead_letter_id = any(letters);
        delete from penstock.dead_letters d where d.dead_letter_id = any(letters);
    when 'operator_events' then
        delete from penstock.operator_events e
         where e.event_id = any(array(select o.event_id from penstock.operator_events o where o.at < cutoff limit p_limit))
           and e.event_id is distinct from (select max(o.event_id) from penstock.operator_events o where o.action = 'open_payload');
    when 'attempts' then
        delete from penstock.effect_attempts a
         where a.attempt_id = any(array(
               select o.attempt_id from penstock.effect_attempts o
                where o.at < cutoff
                  and not exists (select from penstock.effects e
                                   where e.effect_key = o.effect_key and e.state in ('intended', 'uncertain'))
                limit p_limit));
    when 'runs' then
        delete from penstock.runs r
         where r.run_id = any(array(
               select o.run_id from penstock.runs o where o.started_at < cutoff order by o.started_at limit p_limit));
    when 'skips' then
        delete from penstock.skips s
         where s.skip_id = any(array(select o.skip_id from penstock.skips o where o.at < cutoff limit p_limit));
    when 'workers' then
        delete from penstock.workers w
         where w.worker_id = any(array(
               select o.worker_id from penstock.workers o where o.heartbeat_at < cutoff limit p_limit));
    when 'alerts' then
        delete from penstock.alerts a
         where a.alert_id = any(array(
               select o.alert_id from penstock.alerts o where o.acknowledged_at < cutoff limit p_limit));
    when 'batches' then
        -- Its items go with their jobs; a batch goes when nobody can ask for any of them.
        delete from penstock.batches b
         where b.batch_id = any(array(
               select o.batch_id from penstock.batches o
                where o.state in ('collected', 'abandoned') and o.created_at < cutoff
                  and not exists (select from penstock.batch_items i join penstock.jobs j on j.job_id = i.job_id
                                   where i.batch_id = o.batch_id)
                order by o.created_at limit p_limit for update skip locked));
    when 'spend' then
        delete from penstock.spend s
         where s.ctid = any(array(
               select o.ctid from penstock.spend o where o.day < (cutoff at time zone 'UTC')::date limit p_limit));
    when 'keys' then
        -- Each key has its own end.
        delete from penstock.kept_keys k
         where k.idempotency_key = any(array(
               select o.idempotency_key from penstock.kept_keys o where o.kept_until < penstock.now() limit p_limit));
    when 'rates' then
        -- A row says itself from when on it says nothing.
        delete from penstock.rates r
         where (r.job_type, r.limit_key) in (
               select o.job_type, o.limit_key from penstock.rates o where o.expires_at < penstock.now() limit p_limit)
           and r.expires_at < penstock.now();
    else
        raise exception using errcode = '22023', message = format('retention knows no rows called %L', p_what);
    end case;
    get diagnostics gone = row_count;
    perform set_config('penstock.pruning', '', true);
    return gone;
end
$$;
