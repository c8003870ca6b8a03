-- What no statement may do to the tables of this application, whoever types it.

-- Facts that were frozen stay as they are: snapshots, the detail of a job, an output (A-29, C-40, L-41).
create function rewrite.refuse_change() returns trigger
    language plpgsql
as $$
begin
    raise exception using errcode = 'PS001',
        message = format('%s.%s is written once: %s is refused', tg_table_schema, tg_table_name, lower(tg_op)),
        hint = 'Make a new request; what was decided for this one never changes.';
end
$$;
create trigger frozen before update or delete on rewrite.recipient_snapshots
    for each row execute function rewrite.refuse_change();
create trigger frozen before update or delete on rewrite.recipient_snapshot_members
    for each row execute function rewrite.refuse_change();
create trigger frozen before update or delete on rewrite.recipient_preference_snapshots
    for each row execute function rewrite.refuse_change();
create trigger frozen before update or delete on rewrite.rewrite_jobs
    for each row execute function rewrite.refuse_change();
create trigger frozen before update or delete on rewrite.rewrite_outputs
    for each row execute function rewrite.refuse_change();
create trigger frozen before update or delete on rewrite.evaluation_failures
    for each row execute function rewrite.refuse_change();
create trigger kept before delete on rewrite.rewrite_requests
    for each row execute function rewrite.refuse_change();

-- An erased home stays so: no key is made for it again. The lock makes an erasure that is under way come first or last.
create function rewrite.refuse_erased_home() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
begin
    perform from rewrite.homes h where h.home_id = new.home_id and h.erased_at is null for share;
    if not found then
        raise exception using errcode = 'PS001', message = format('home %s is unknown or was erased', new.home_id),
            hint = 'What was erased cannot come back; make a new home.';
    end if;
    return new;
end
$$;
create trigger of_a_living_home before insert on rewrite.home_keys
    for each row execute function rewrite.refuse_erased_home();
create trigger of_a_living_home before insert on rewrite.rewrite_requests
    for each row execute function rewrite.refuse_erased_home();

-- A request begins at its beginning, between two members of its home.
create function rewrite.begin_request() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
begin
    if new.status <> 'received' then
        raise exception using errcode = 'PS001',
            message = format('a new request is received, not %s', new.status),
            hint = 'Its status follows from its job.';
    end if;
    if not exists (select from rewrite.home_members m where m.home_id = new.home_id and m.user_id = new.sender_user_id)
       or not exists (select from rewrite.home_members m
                       where m.home_id = new.home_id and m.user_id = new.recipient_user_id) then
        raise exception using errcode = 'PS001',
            message = format('request %s: sender and recipient must be members of home %s', new.rewrite_request_id, new.home_id);
    end if;
    return new;
end
$$;
create trigger received before insert on rewrite.rewrite_requests
    for each row execute function rewrite.begin_request();

-- Everything decided is fixed (A-30, L-09, L-29); the status goes forward and ends.
create function rewrite.guard_request() returns trigger
    language plpgsql
as $$
begin
    if (old.rewrite_request_id, old.home_id, old.sender_user_id, old.recipient_user_id, old.recipient_snapshot_id,
        old.recipient_preference_snapshot_id, old.surface, old.rewrite_strength, old.source_locale, old.target_locale,
        old.source_locale_raw, old.target_locale_raw, old.lane, old.classifier_result, old.rewrite_request,
        old.idempotency_key, old.fingerprint, old.created_at)
       is distinct from
       (new.rewrite_request_id, new.home_id, new.sender_user_id, new.recipient_user_id, new.recipient_snapshot_id,
        new.recipient_preference_snapshot_id, new.surface, new.rewrite_strength, new.source_locale, new.target_locale,
        new.source_locale_raw, new.target_locale_raw, new.lane, new.classifier_result, new.rewrite_request,
        new.idempotency_key, new.fingerprint, new.created_at) then
        raise exception using errcode = 'PS001',
            message = format('request %s: what was decided for it cannot be changed', old.rewrite_request_id),
            hint = 'Send a new message: it gets a request of its own.';
    end if;
    if old.status <> new.status then
        if not ((old.status = 'received' and new.status in ('queued', 'failed'))
                or (old.status = 'queued' and new.status in ('completed', 'failed', 'canceled'))) then
            raise exception using errcode = 'PS001',
                message = format('request %s is %s and cannot become %s', old.rewrite_request_id, old.status, new.status),
                hint = 'A request that has ended stays so; send a new message.';
        end if;
        new.status_changed_at := greatest(penstock.now(), old.status_changed_at + interval '1 microsecond');
    elsif (new.status_changed_at, new.rewrite_completed_at, new.failure_code)
          is distinct from (old.status_changed_at, old.rewrite_completed_at, old.failure_code) then
        raise exception using errcode = 'PS001',
            message = format('request %s: its end is recorded with its status or not at all', old.rewrite_request_id);
    end if;
    return new;
end
$$;
create trigger decided before update on rewrite.rewrite_requests
    for each row execute function rewrite.guard_request();

-- A request becomes completed only with its output, which carries the versions of what validated it (A-67).
create function rewrite.refuse_hollow_request() returns trigger
    language plpgsql security definer set search_path = pg_catalog
as $$
begin
    if not exists (select from rewrite.rewrite_outputs o
                    where o.rewrite_request_id = new.rewrite_request_id
                      and o.recipient_user_id = new.recipient_user_id) then
        raise exception using errcode = 'PS001',
            message = format('request %s has no output and cannot be completed', new.rewrite_request_id);
    end if;
    return null;
end
$$;
create trigger completed_with_output after update on rewrite.rewrite_requests
    for each row when (new.status = 'completed' and old.status <> 'completed')
    execute function rewrite.refuse_hollow_request();

-- Live status for whoever may read it: a poke without data, as any role can listen (C-56).
create function rewrite.tell_status() returns trigger
    language plpgsql
as $$
begin
    perform pg_notify('rewrite_status', '');
    return null;
end
$$;
create trigger told_insert after insert on rewrite.rewrite_requests
    for each statement execute function rewrite.tell_status();
create trigger told_update after update of status on rewrite.rewrite_requests
    for each statement execute function rewrite.tell_status();
