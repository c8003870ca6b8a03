-- What a statement of 004 does to the engine's jobs. A legacy statement names no claim, so the rules are these:
--   a job that a worker of the engine holds (it has a run) is that worker's: a legacy write changes nothing;
--   a job that nobody holds cannot be ended or given back: whoever tries has lost its claim and changes nothing;
--   what changes nothing counts as no row, and says so in a warning, as with every claim that was lost (C-31);
--   words that are none, and ended jobs that are to begin again, are errors.

create function vault.outbox_word(p_status text) returns text
    language sql immutable parallel safe
as $$
    select case p_status when 'queued' then 'PENDING' when 'processing' then 'IN_PROGRESS'
                         when 'batch_submitted' then 'IN_PROGRESS' when 'completed' then 'DONE' else 'FAILED' end
$$;

-- A row put in is a job enqueued, with its poke. The key is that of the item's round; where that is taken the row is one
-- more job of the same item, as it was one more row: the status of the item keeps the effect to one (D-54).
create function vault.outbox_insert() returns trigger
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    item uuid := vault.outbox_uuid(new.item_id::text);
    due interval := case when isfinite(new.run_at) then new.run_at - now() end;
    key text;
    given uuid := coalesce(vault.outbox_id(new.id::text), penstock.uuid7());
    poked boolean := coalesce(current_setting('penstock.notify', true), '') <> 'off';
    answer text[];
begin
    if new.item_id is null then
        raise exception using errcode = '23502', message = 'item_id is null: a job of the outbox is about an item',
            hint = 'Save the item first and name its id.';
    elsif item is null then
        raise exception using errcode = '22P02', message = format('item_id is no uuid: %s', left(new.item_id::text, 50));
    elsif new.status::text <> 'PENDING' or new.attempt_count <> 0 then
        raise exception using errcode = 'PS001',
            message = format('a new row is PENDING with no attempt used, not %s with %s', left(new.status::text, 50), new.attempt_count);
    elsif new.job_type <> 'enrichment' then
        raise exception using errcode = '22023',
            message = format('the outbox holds jobs of type enrichment, not %s', new.job_type),
            hint = 'Other types are enqueued with penstock.enqueue(...).';
    elsif not isfinite(new.run_at) or due > interval '3660 days' then
        raise exception using errcode = '22023', message = 'a job runs now or within ten years: run_at is later';
    end if;
    key := 'enrichment:' || item || coalesce('#' || (
        select i.enrichment_round from vault.items i where i.id = item and i.enrichment_round > 1), '');
    due := greatest(due, interval '0');
    perform vault.register_enrichment();
    answer := penstock.put_job('enrichment', jsonb_build_object('item_id', item)::text, key, null, due, null, null, given, poked, null);
    if answer[2] = 'false' then
        answer := penstock.put_job('enrichment', jsonb_build_object('item_id', item)::text, null, null, due, null, null, given, poked, null);
    end if;
    perform penstock.raise_refusal(answer[4], 'enrichment');
    execute format('select * from %I.%I where id::text = $1', tg_table_schema, tg_table_name) into new using given::text;
    return new;
end
$$;

create function vault.outbox_delete() returns trigger
    language plpgsql
as $$
begin
    raise exception using errcode = '0A000', message = format('rows of the outbox are not deleted by hand: %s', old.id),
        hint = 'Finished jobs leave by retention (penstock run retention); others are canceled first (penstock jobs cancel).';
end
$$;

create function vault.outbox_update() returns trigger
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    job penstock.jobs;
    way text := old.status::text || ' ' || new.status::text;
    charged integer := new.attempt_count - old.attempt_count;
    legacy_error boolean := new.last_error is distinct from old.last_error;
    message text := case when legacy_error then new.last_error else new.last_error_message end;
    code text := case when not legacy_error then new.last_error_code end;
    lease interval := case when new.lease_expires_at is distinct from old.lease_expires_at and isfinite(new.lease_expires_at)
                           then new.lease_expires_at - now() end;
    due interval := case when new.run_at is distinct from old.run_at and isfinite(new.run_at) then new.run_at - now() end;
    moved boolean := true;
begin
    if new.status is null or new.status::text not in ('PENDING', 'IN_PROGRESS', 'DONE', 'FAILED') then
        raise exception using errcode = '22023',
            message = format('status is one of PENDING, IN_PROGRESS, DONE, FAILED, not %s', coalesce(left(new.status::text, 50), 'null'));
    elsif (new.id, new.item_id, new.job_type, new.created_at) is distinct from (old.id, old.item_id, old.job_type, old.created_at) then
        raise exception using errcode = 'PS001', message = format('job %s: id, item_id, job_type and created_at cannot be changed', old.id),
            hint = 'Put a new row in.';
    elsif charged is null or charged not in (0, 1) then
        raise exception using errcode = 'PS001',
            message = format('job %s: attempt_count rises by one when an attempt fails, not from %s to %s', old.id,
                             old.attempt_count, coalesce(new.attempt_count::text, 'null'));
    elsif due > interval '3660 days' or not isfinite(new.run_at) or new.run_at is null then
        raise exception using errcode = '22023', message = format('job %s: run_at lies within ten years', old.id);
    elsif not isfinite(new.lease_expires_at) then
        raise exception using errcode = '22023', message = format('job %s: a lease ends within a day', old.id);
    elsif old.status::text in ('DONE', 'FAILED') and new.status::text in ('PENDING', 'IN_PROGRESS') then
        raise exception using errcode = 'PS001',
            message = format('job %s is %s and cannot become %s', old.id, old.status, new.status),
            hint = 'What has ended stays so. Replay a failed job (penstock dead replay), or put a new row in.';
    end if;

    -- The WHERE of the statement was true of the row as it was seen; if somebody was faster it may be true no more.
    select * into job from penstock.jobs j where j.job_id = vault.outbox_id(old.id::text) for update;
    if not found or vault.outbox_word(job.status) <> old.status::text
       or job.claimed_at is distinct from old.locked_at::timestamptz then
        return null;
    end if;
    case
        when way = 'PENDING IN_PROGRESS' then moved := vault.claim_for_outbox(job, new.locked_by, lease);
        when way = 'PENDING PENDING' and charged = 0 then perform vault.reschedule_for_outbox(job, due);
        when old.status = new.status and old.status::text in ('DONE', 'FAILED') then null;
        when way = 'IN_PROGRESS PENDING' and charged = 0 and job.lease_expires_at < penstock.now() then
            moved := vault.reclaim_for_outbox(job);
        when old.status::text <> 'IN_PROGRESS' or job.run_id is not null then moved := false;
        when way = 'IN_PROGRESS IN_PROGRESS' then
            moved := new.locked_by is not distinct from old.locked_by and charged = 0;
            if moved then
                perform vault.renew_for_outbox(job, lease);
            end if;
        when way = 'IN_PROGRESS DONE' then perform vault.complete_for_outbox(job);
        when way = 'IN_PROGRESS FAILED' then perform vault.fail_for_outbox(job, charged, code, message);
        else perform vault.requeue_for_outbox(job, charged, due, code, message);
    end case;
    if not moved then
        raise warning 'job % is %: nobody holds it for this statement, so % changes nothing', old.id,
            case when job.run_id is not null and job.status = 'processing' then 'in the hands of ' || job.claimed_by
                 else old.status::text end, new.status::text;
        return null;
    end if;
    execute format('select * from %I.%I where id = $1', tg_table_schema, tg_table_name) into new using old.id;
    return new;
end
$$;
