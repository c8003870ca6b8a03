-- What no statement may do to reviews, whoever types it.

-- What was asked for, fetched and answered stays as it is: a second answer of the critic is not written over the first.
create function review.refuse_change() returns trigger
    language plpgsql
as $$
begin
    raise exception using errcode = 'PS001',
        message = format('%s.%s is written once: %s is refused', tg_table_schema, tg_table_name, lower(tg_op)),
        hint = 'Ask for a rerun with a higher version; what this one has found stays.';
end
$$;
create trigger frozen before update or delete on review.reviews
    for each row execute function review.refuse_change();
create trigger frozen before update or delete on review.creation_keys
    for each row execute function review.refuse_change();
create trigger frozen before update or delete on review.recipients
    for each row execute function review.refuse_change();
create trigger frozen before update or delete on review.artifacts
    for each row execute function review.refuse_change();
create trigger frozen before update or delete on review.parts
    for each row execute function review.refuse_change();
create trigger frozen before update or delete on review.questions
    for each row execute function review.refuse_change();

-- Whom to tell is said when the review is made, and never added to: its job may have told everybody by then.
create function review.refuse_late_recipient() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
begin
    if exists (select from review.creation_keys k where k.review_id = new.review_id) then
        raise exception using errcode = 'PS001', message = format('review %s has its recipients', new.review_id),
            hint = 'Ask for a rerun with a higher version and name everybody.';
    end if;
    return new;
end
$$;
create trigger named_at_once before insert on review.recipients
    for each row execute function review.refuse_late_recipient();

-- A job of this type carries the id of a review and nothing else, and is the review's own job, a replay of one, or a
-- delivery repeated. Looked at when the transaction commits: the review names its job, so the job is there first.
create function review.refuse_stray_job() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
declare
    given text := new.payload ->> 'review_id';
    id uuid := case when given ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then given::uuid end;
begin
    if new.payload <> jsonb_build_object('review_id', given)
       or not exists (select from review.reviews r
                       where r.review_id = id
                         and (r.job_id = new.job_id or new.replay_of_job_id is not null
                              or starts_with(new.idempotency_key, 'review_processing:' || id || '#redeliver-'))) then
        raise exception using errcode = 'PS001', message = format('job %s belongs to no review', new.job_id),
            hint = 'Ask for a review with create_review, POST /reviews or `penstock review create`, which make its job.';
    end if;
    return null;
end
$$;
create constraint trigger review_own_job after insert on penstock.jobs deferrable initially deferred
    for each row when (new.job_type = 'review_processing')
    execute function review.refuse_stray_job();

-- How a review stands: as the job that works for it now, which is the last replay of the first one. Derived, so that
-- there is no second status to keep in step (C-46). A job that retention has removed ended well if everybody was told.
create function review.standing(
    p_review_id uuid, out status text, out stage text, out failed_attempts integer, out superseded_by_job_id uuid)
    language sql stable security definer set search_path = pg_catalog
as $$
    select coalesce(now.status,
                    case when not exists (
                        select from review.recipients w
                          left join review.deliveries d on d.review_id = w.review_id and d.recipient = w.recipient
                         where w.review_id = r.review_id and w.required
                           and d.notified_at is null and d.waived_by is null) then 'completed' end,
                    (select e.to_status from penstock.job_events e
                      where e.job_id = r.job_id order by e.event_id desc limit 1),
                    'failed'),
           coalesce(now.stage, 'notify'), coalesce(s.attempts, 0), first.superseded_by_job_id
      from review.reviews r
      left join penstock.jobs first on first.job_id = r.job_id
      left join penstock.jobs now on now.job_id = coalesce(first.superseded_by_job_id, first.job_id)
      left join penstock.stages s on s.job_id = now.job_id and s.stage = now.stage
     where r.review_id = p_review_id
$$;
