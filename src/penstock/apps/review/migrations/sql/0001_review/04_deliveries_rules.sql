-- What no statement may do to deliveries, whoever types it, and what is settled about them in one place.

-- Who is told what under which token never changes. A row that is marked, failed or being looked into is not sent (N-15, N-32).
create function review.guard_delivery() returns trigger
    language plpgsql
as $$
begin
    if (old.delivery_id, old.review_id, old.changelist_id, old.recipient, old.review_version, old.channel, old.address,
        old.required, old.token, old.created_at, coalesce(old.payload, new.payload))
       is distinct from
       (new.delivery_id, new.review_id, new.changelist_id, new.recipient, new.review_version, new.channel, new.address,
        new.required, new.token, new.created_at, new.payload) then
        raise exception using errcode = 'PS001',
            message = format('delivery %s: who is told what cannot be changed', old.delivery_id),
            hint = 'Ask for a rerun with a higher version: it has deliveries of its own.';
    end if;
    if new.send_count > old.send_count and (old.status <> 'pending' or old.notified_at is not null) then
        raise exception using errcode = 'PS001',
            message = format('delivery %s is %s and is not sent', old.delivery_id,
                             case when old.notified_at is not null then 'marked' else old.status end),
            hint = 'penstock deliveries show tells what is known of it.';
    end if;
    return new;
end
$$;
create trigger guarded before update on review.deliveries
    for each row execute function review.guard_delivery();
create trigger kept before delete on review.deliveries
    for each row execute function review.refuse_change();
create trigger written_once before update or delete on review.delivery_attempts
    for each row when (old.outcome <> 'started') execute function review.refuse_change();

-- The end of a job. It is completed only when everybody required was told, or was excused (N-18). One that ends otherwise,
-- also while no handler runs (reaper, cancel, deadline), leaves no send in doubt behind that looks as if it had never been
-- made (C-45).
create function review.end_job() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
declare
    id uuid := (new.payload ->> 'review_id')::uuid;
begin
    if new.status = 'completed' then
        if exists (select from review.recipients w
                     left join review.deliveries d on d.review_id = w.review_id and d.recipient = w.recipient
                    where w.review_id = id and w.required and d.notified_at is null and d.waived_by is null) then
            raise exception using errcode = 'PS001',
                message = format('job %s has not told every required recipient and cannot be completed', new.job_id);
        end if;
        return null;
    end if;
    update review.deliveries d
       set status = 'reconciling'
     where d.review_id = id and d.status = 'pending' and d.send_count > 0 and d.notified_at is null;
    return null;
end
$$;
create trigger review_end_job after update on penstock.jobs
    for each row when (new.job_type = 'review_processing' and old.status <> new.status
                       and new.status in ('completed', 'failed', 'canceled'))
    execute function review.end_job();

-- A dead letter of the stage names the deliveries that are missing (C-44).
create function review.name_missing() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
begin
    new.sanitized_context := new.sanitized_context || jsonb_build_object('delivery_ids', (
        select coalesce(jsonb_agg(d.delivery_id order by d.delivery_id), '[]')
          from penstock.jobs j
          join review.deliveries d on d.review_id = (j.payload ->> 'review_id')::uuid
         where j.job_id = new.last_job_id and d.required and d.notified_at is null and d.waived_by is null));
    return new;
end
$$;
create trigger review_letter before insert on penstock.dead_letters
    for each row when (new.job_type = 'review_processing' and new.stage = 'notify')
    execute function review.name_missing();
create trigger review_letter_again before update on penstock.dead_letters
    for each row when (new.job_type = 'review_processing' and new.stage = 'notify'
                       and new.last_job_id is distinct from old.last_job_id)
    execute function review.name_missing();

-- How the job that may still send for a review stands: the last redelivery, else the first job, each as its last replay
-- left it; null when retention has removed it.
create function review.job_status(p_review_id uuid) returns text
    language sql stable
as $$
    with last as (
        select j.job_id, j.superseded_by_job_id
          from penstock.jobs j
         where j.job_id = (select r.job_id from review.reviews r where r.review_id = p_review_id)
            or j.idempotency_key = 'review_processing:' || p_review_id || '#redeliver-' || (
               select sum(d.cleared_count) from review.deliveries d where d.review_id = p_review_id)
         order by j.created_at desc, j.job_id desc
         limit 1
    )
    select j.status from last join penstock.jobs j on j.job_id = coalesce(last.superseded_by_job_id, last.job_id)
$$;

-- A provider was asked about a delivery outside of any job (N-20).
create function review.note_lookup(p_delivery_id uuid, p_outcome text) returns void
    language sql volatile security definer set search_path = pg_catalog
as $$
    update review.deliveries d set looked_up_at = penstock.now() where d.delivery_id = p_delivery_id;
    insert into review.delivery_attempts (delivery_id, attempt, action, outcome)
    select d.delivery_id, d.send_count, 'lookup', left(p_outcome, 50)
      from review.deliveries d where d.delivery_id = p_delivery_id;
$$;

-- A provider knows nothing of a delivery that is marked as sent: nothing is sent before that is settled, and somebody hears
-- of it, as the order of sending and marking was broken (N-29, N-32).
create function review.suspect_delivery(p_delivery_id uuid) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
begin
    update review.deliveries d
       set status = 'reconciling'
     where d.delivery_id = p_delivery_id and d.status = 'sent' and d.notified_at is not null
       and d.provider_confirmed_at is null;
    if found then
        insert into penstock.alerts (kind, severity, subject)
        select 'ordering_violation', 'alert', jsonb_build_object('delivery_id', d.delivery_id, 'review_id', d.review_id)
          from review.deliveries d where d.delivery_id = p_delivery_id;
    end if;
    return found;
end
$$;

-- It is known now whether a send has happened: from its provider (p_proven), or from a person who has looked. The effect and
-- the row change together; locked in the order of every other writer: effect, then row. Returns the status of the row, or
-- null when there is no such delivery. One that a live claim has in hand is refused by penstock.resolve_effect.
create function review.settle_delivery(
    p_delivery_id uuid, p_happened boolean, p_notification_id text, p_who text, p_proven boolean) returns text
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    at timestamptz := penstock.now();
    key text;
    known review.deliveries;
    result text;
begin
    select 'review_processing:delivery:key:' || d.token into key
      from review.deliveries d where d.delivery_id = p_delivery_id;
    if not found then
        return null;
    end if;
    perform penstock.resolve_effect(key, p_happened, p_who,
        jsonb_build_object('notification_id', p_notification_id, 'confirmed', p_proven));
    select * into known from review.deliveries d where d.delivery_id = p_delivery_id for update;
    if p_happened then
        if known.send_count = 0 and known.notified_at is null and known.status = 'pending' then
            raise exception using errcode = 'PS001', message = format('delivery %s was never sent', p_delivery_id),
                hint = 'Its job will send it; penstock deliveries waive excuses the recipient.';
        end if;
        update review.deliveries d
           set status = 'sent', notified_at = coalesce(d.notified_at, at),
               notification_id = coalesce(p_notification_id, d.notification_id), reconciled_at = at,
               provider_confirmed_at = case when p_proven then at else d.provider_confirmed_at end, last_error_code = null
         where d.delivery_id = p_delivery_id
        returning d.status into result;
        return result;
    end if;
    if known.status in ('sent', 'failed') or (known.status = 'pending' and known.send_count = 0) then
        return known.status;
    end if;
    perform penstock.reopen_effect(key, p_who);
    update review.deliveries d
       set status = case when d.notified_at is not null
                           or review.job_status(d.review_id) in ('queued', 'processing', 'batch_submitted')
                         then 'pending' else 'failed' end,
           cleared_count = d.cleared_count + (d.notified_at is not null)::integer,
           notified_at = null, notification_id = null, send_count = 0, first_send_at = null, reconciled_at = at
     where d.delivery_id = p_delivery_id
    returning d.status into result;
    return result;
end
$$;

-- Jobs for reviews whose deliveries were cleared after their own job had ended well: one for each time, by its key (N-28).
create function review.redeliver(p_limit integer) returns integer
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    due record;
    jobs integer := 0;
begin
    for due in
        select d.review_id, d.review_id || '#redeliver-' || (
                   select sum(o.cleared_count) from review.deliveries o where o.review_id = d.review_id) as key
          from review.deliveries d
         where d.status = 'pending' and d.cleared_count > 0 and d.notified_at is null
         group by d.review_id
         order by min(d.created_at)
         limit p_limit
    loop
        if coalesce(review.job_status(due.review_id), 'completed') = 'completed'
           and not exists (select from penstock.jobs j where j.idempotency_key = 'review_processing:' || due.key) then
            perform penstock.enqueue('review_processing', jsonb_build_object('review_id', due.review_id), due.key);
            jobs := jobs + 1;
        end if;
    end loop;
    return jobs;
end
$$;

-- An operator excuses a recipient: the job may succeed without them. Returns the status of the row; null: no such delivery.
create function review.waive_delivery(p_delivery_id uuid, p_who text) returns text
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    result text;
begin
    update review.deliveries d set waived_by = left(p_who, 100)
     where d.delivery_id = p_delivery_id and d.notified_at is null and d.waived_by is null;
    select d.status into result from review.deliveries d where d.delivery_id = p_delivery_id;
    return result;
end
$$;
