-- Beside the engine's own rules, for jobs of this type alone: how one begins, is locked and ends. The tests of the type
-- stand in the triggers, so jobs of all other types pay for one comparison.

-- One unit, one lock, without the home (A-39, A-59, L-46).
create function rewrite.unit_lock(p_rewrite_request_id uuid, p_recipient_user_id uuid) returns bigint
    language sql immutable parallel safe
as $$
    select hashtextextended(p_rewrite_request_id::text || ':' || p_recipient_user_id::text, 0)
$$;

-- Only the orchestrator enqueues, and only for a request that is there (A-35, A-36). The payload is three ids, so no text
-- can come along (A-33); the key is the unit, so a second enqueue finds the first (A-37).
create function rewrite.begin_job() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
declare
    orchestrator oid := to_regrole('penstock_orchestrator');
    request text := new.payload ->> 'rewrite_request_id';
    recipient text := new.payload ->> 'recipient_user_id';
    home text := new.payload ->> 'home_id';
    canonical constant text := '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
begin
    if not (pg_has_role(session_user, (select n.nspowner from pg_namespace n where n.nspname = 'rewrite'), 'member')
            or (orchestrator is not null and pg_has_role(session_user, orchestrator, 'member'))) then
        raise exception using errcode = '42501', message = format('%s may not enqueue rewrites', session_user),
            hint = 'Log in as a member of penstock_orchestrator.';
    end if;
    if (request ~ canonical and recipient ~ canonical and home ~ canonical) is not true
       or new.payload - '{rewrite_request_id,recipient_user_id,home_id}'::text[] <> '{}'::jsonb
       or new.idempotency_key is distinct from 'complaint_rewrite:' || request || ':' || recipient then
        raise exception using errcode = 'PS001',
            message = format('job %s: the payload of a rewrite is three ids and its key is its unit', new.job_id),
            hint = 'Submit the message through the orchestrator, which enqueues it.';
    end if;
    if not exists (select from rewrite.rewrite_requests r
                    where r.rewrite_request_id = request::uuid and r.recipient_user_id = recipient::uuid
                      and r.home_id = home::uuid) then
        raise exception using errcode = 'PS001', message = format('job %s: there is no request %s', new.job_id, request),
            hint = 'The message is persisted before its job is enqueued.';
    end if;
    return new;
end
$$;
create trigger rewrite_begin_job before insert on penstock.jobs
    for each row when (new.job_type = 'complaint_rewrite')
    execute function rewrite.begin_job();

-- The claim takes only jobs whose lock is free, and takes the lock before the status changes (C-30). A job whose unit is
-- busy stays queued and the others of the set are claimed. The hand-over to a batch waits for the lock.
create function rewrite.lock_unit() returns trigger
    language plpgsql
as $$
declare
    lock bigint := hashtextextended(
        coalesce(substr(new.idempotency_key, length('complaint_rewrite:') + 1), new.job_id::text), 0);
begin
    if new.status = 'processing' then
        return case when pg_try_advisory_xact_lock(lock) then new end;
    end if;
    perform pg_advisory_xact_lock(lock);
    return new;
end
$$;
create trigger rewrite_unit_lock before update on penstock.jobs
    for each row when (new.job_type = 'complaint_rewrite' and old.status <> new.status
                       and new.status in ('processing', 'batch_submitted'))
    execute function rewrite.lock_unit();

-- An output is for a job that is under way and a request that waits for it, never for one that has failed or was canceled
-- (A-48, A-76). Locked in the order of every other writer: job, unit, request. Where the slot is filled the primary key
-- answers, so that a second output is nothing or an error as its writer wishes (A-75).
create function rewrite.await_output() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
declare
    awaited boolean;
begin
    perform from penstock.jobs j
      where j.job_id = new.job_id and j.status in ('processing', 'batch_submitted') for update;
    awaited := found;
    perform pg_advisory_xact_lock(rewrite.unit_lock(new.rewrite_request_id, new.recipient_user_id));
    if exists (select from rewrite.rewrite_outputs o
                where o.rewrite_request_id = new.rewrite_request_id and o.recipient_user_id = new.recipient_user_id) then
        return new;
    end if;
    perform from rewrite.rewrite_requests r
      where r.rewrite_request_id = new.rewrite_request_id and r.status = 'queued' for update;
    if not (awaited and found) then
        raise exception using errcode = 'PS001',
            message = format('request %s does not wait for an output', new.rewrite_request_id),
            hint = 'Its job has ended, or was never this one; the output is dropped.';
    end if;
    return new;
end
$$;
create trigger awaited before insert on rewrite.rewrite_outputs
    for each row execute function rewrite.await_output();

-- The end of a job. Completed means: output stored, validated, request completed, times set (Q-14, A-67). A job that dies
-- takes its request along, also when no handler runs: reaper, cancel, deadline (C-62, A-73). One trigger for both, as
-- every job of every type pays for its test.
create function rewrite.end_job() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
begin
    if new.status = 'completed' then
        if not exists (select from rewrite.rewrite_jobs j
                         join rewrite.rewrite_outputs o using (rewrite_request_id, recipient_user_id)
                         join rewrite.rewrite_requests r using (rewrite_request_id)
                        where j.job_id = new.job_id and r.status = 'completed' and r.rewrite_completed_at is not null) then
            raise exception using errcode = 'PS001',
                message = format('job %s has no validated output and cannot be completed', new.job_id);
        end if;
        return null;
    end if;
    update rewrite.rewrite_requests r
       set status = new.status, failure_code = case when new.status = 'failed' then 'rewrite_unavailable' end
      from rewrite.rewrite_jobs j
     where j.job_id = new.job_id and r.rewrite_request_id = j.rewrite_request_id and r.status = 'queued';
    return null;
end
$$;
create trigger rewrite_end_job after update on penstock.jobs
    for each row when (new.job_type = 'complaint_rewrite' and old.status <> new.status
                       and new.status in ('completed', 'failed', 'canceled'))
    execute function rewrite.end_job();
