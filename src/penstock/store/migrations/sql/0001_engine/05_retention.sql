-- Retention (C-67). Rows leave in small sets, through these functions only: they run as the owner, look again at
-- every row before it goes, and nobody else may delete. What is never pruned: a job whose dead letter is not
-- resolved, the original of a replay that is still there, an alert that nobody has seen, an effect in doubt.
create view penstock.prunable_jobs with (security_invoker = true) as
    select j.job_id, j.finished_at, j.idempotency_key, j.payload, t.keep_keys
      from penstock.jobs j
      join penstock.types t on t.job_type = j.job_type
     where j.finished_at < penstock.now() - t.keep_finished
       and not exists (select from penstock.dead_letters d
                        where d.job_id = coalesce(j.replay_of_job_id, j.job_id) and d.state <> 'resolved')
       and not exists (select from penstock.jobs r where r.job_id = j.superseded_by_job_id);

-- An effect is remembered as long as its job or its job's key is, and for the type's keep_keys after it was done or
-- given up: a key that is known must not meet an effect that is forgotten.
create view penstock.prunable_effects with (security_invoker = true) as
    select e.effect_key, coalesce(e.done_at, e.settled_at) as ended_at
      from penstock.effects e
      join penstock.types t on t.job_type = split_part(e.effect_key, ':', 1)
     where e.state in ('done', 'abandoned') and coalesce(e.done_at, e.settled_at) < penstock.now() - t.keep_keys
       and not exists (select from penstock.jobs j where j.job_id = e.job_id)
       and not exists (select from penstock.kept_keys k where k.job_id = e.job_id)
    union all
    -- The intents of batch submissions are named after the batch; they stay as long as its item does.
    select e.effect_key, coalesce(e.done_at, e.settled_at)
      from penstock.effects e
     where e.kind = 'batch_submission' and e.state in ('done', 'abandoned')
       and not exists (select from penstock.jobs j where j.job_id = e.job_id)
       and not exists (select from penstock.batch_items i where i.job_id = e.job_id);

-- Committed before the jobs go, so that an enqueue of the same key always meets one of the two.
create function penstock.keep_keys(p_job_ids uuid[]) returns void
    language sql volatile security definer set search_path = pg_catalog
as $$
    insert into penstock.kept_keys as kept (idempotency_key, job_id, payload, kept_until)
    select p.idempotency_key, p.job_id, p.payload, penstock.now() + p.keep_keys
      from penstock.prunable_jobs p
     where p.job_id = any(p_job_ids) and p.idempotency_key is not null
     order by p.idempotency_key
    on conflict (idempotency_key) do update set kept_until = excluded.kept_until
$$;

create function penstock.prune_jobs(p_job_ids uuid[]) returns bigint
    language sql volatile security definer set search_path = pg_catalog
as $$
    with gone as (
        delete from penstock.jobs j
         where j.job_id = any(array(
               select p.job_id from penstock.prunable_jobs p
                where p.job_id = any(p_job_ids)
                  and (p.idempotency_key is null
                       or exists (select from penstock.kept_keys k where k.idempotency_key = p.idempotency_key))))
        returning j.job_id
    ), stages_gone as (
        delete from penstock.stages s where s.job_id = any(array(select gone.job_id from gone))
    ), items_gone as (
        delete from penstock.batch_items i where i.job_id = any(array(select gone.job_id from gone))
    )
    select count(*) from gone
$$;

create function penstock.prune_effects(p_effect_keys text[]) returns bigint
    language sql volatile security definer set search_path = pg_catalog
as $$
    with gone as (
        delete from penstock.effects e
         where e.effect_key = any(array(
               select p.effect_key from penstock.prunable_effects p where p.effect_key = any(p_effect_keys)))
        returning e.effect_key
    ), attempts_gone as (
        delete from penstock.effect_attempts a where a.effect_key = any(array(select gone.effect_key from gone))
    )
    select count(*) from gone
$$;

-- The audit outlives its job: rows go when they are old enough and the job is gone.
create function penstock.prune_audit(p_event_ids bigint[], p_keep interval) returns bigint
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    pruned bigint;
begin
    perform set_config('penstock.pruning', 'on', true);
    with gone as (
        delete from penstock.job_events e
         where e.event_id = any(p_event_ids)
           and e.at < penstock.now() - p_keep and e.at < penstock.now() - interval '1 day'
           and not exists (select from penstock.jobs j where j.job_id = e.job_id)
        returning 1
    )
    select count(*) into pruned from gone;
    perform set_config('penstock.pruning', '', true);
    return pruned;
end
$$;

-- A set of rows of one kind that are older than p_keep; never younger than a day, whatever the caller says, and
-- none at all where p_keep is null.
create function penstock.prune_old(p_what text, p_keep interval, p_limit integer) returns bigint
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    cutoff timestamptz := penstock.now() - case when p_keep is not null then greatest(p_keep, interval '1 day') end;
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
    return gone;
end
$$;
