-- A job of this type carries the id of a review and nothing else, and is the review's own job, a replay of one, or the
-- redelivery that is due: the number in its key is that of the deliveries cleared so far, and one of them waits. A key that
-- was guessed makes nothing. Looked at when the transaction commits: the review names its job, so the job is there first.
create or replace function review.refuse_stray_job() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    given text := new.payload ->> 'review_id';
    id uuid := case when given ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then given::uuid end;
begin
    if new.payload <> jsonb_build_object('review_id', given)
       or not exists (select from review.reviews r
                       where r.review_id = id
                         and (r.job_id = new.job_id or new.replay_of_job_id is not null
                              or (exists (select from review.deliveries d
                                           where d.review_id = id and d.status = 'pending' and d.cleared_count > 0
                                             and d.notified_at is null)
                                  and new.idempotency_key = 'review_processing:' || id || '#redeliver-' || (
                                      select sum(d.cleared_count) from review.deliveries d where d.review_id = id)))) then
        raise exception using errcode = 'PS001', message = format('job %s belongs to no review', new.job_id),
            hint = 'Ask for a review with create_review, POST /reviews or `penstock review create`, which make its job.';
    end if;
    return null;
end
$$;

-- It is known now whether a send has happened: from its provider (p_proven), or from a person who has looked. The effect and
-- the row change together; locked in the order of every other writer: effect, then row. Returns the status of the row, or
-- null when there is no such delivery. One that a live claim has in hand is refused by penstock.resolve_effect.
create or replace function review.settle_delivery(
    p_delivery_id uuid, p_happened boolean, p_notification_id text, p_who text, p_proven boolean) returns text
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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
    if not p_proven then
        perform penstock.note_act('settle_delivery', p_who,
            jsonb_build_object('delivery_id', p_delivery_id, 'happened', p_happened));
    end if;
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

-- An operator excuses a recipient: the job may succeed without them. Returns the status of the row; null: no such delivery.
create or replace function review.waive_delivery(p_delivery_id uuid, p_who text) returns text
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    result text;
begin
    update review.deliveries d set waived_by = left(p_who, 100)
     where d.delivery_id = p_delivery_id and d.notified_at is null and d.waived_by is null;
    if found then
        perform penstock.note_act('waive_delivery', p_who, jsonb_build_object('delivery_id', p_delivery_id));
    end if;
    select d.status into result from review.deliveries d where d.delivery_id = p_delivery_id;
    return result;
end
$$;

select review.apply_grants();
