-- What grants cannot say about the moves of jobs. Column grants let a worker write `status`; which move is its own to
-- make is said here. Every condition is in a WHEN, so a legal move pays for the comparison alone.

-- Whether the statement under way was written by the owner of the schema, or stands in a function that runs as the owner.
create function penstock.is_owner() returns boolean
    language sql stable set search_path = pg_catalog, pg_temp
as $$
    select pg_has_role(current_user, (select n.nspowner from pg_namespace n where n.nspname = 'penstock'), 'member')
$$;

-- The same, or a member of penstock_operator.
create function penstock.is_operator() returns boolean
    language sql stable set search_path = pg_catalog, pg_temp
as $$
    select penstock.is_owner()
        or coalesce((select pg_has_role(current_user, r.oid, 'member') from pg_roles r
                      where r.rolname = 'penstock_operator'), false)
$$;

-- History is imported, and open jobs are removed, by the owner's functions; to set the parameter is not enough.
create or replace function penstock.refuse_illegal_change() returns trigger
    language plpgsql
as $$
begin
    if tg_op <> 'UPDATE' and current_setting('penstock.importing', true) = 'on' and penstock.is_owner() then
        return coalesce(new, old); -- history: 05_history.sql
    end if;
    if tg_op = 'INSERT' then
        raise exception using errcode = 'PS001',
            message = format('a new job must be queued and unclaimed, not %s', new.status),
            hint = 'Use penstock.enqueue(...).';
    elsif tg_op = 'DELETE' then
        raise exception using errcode = 'PS001',
            message = format('job %s is %s and cannot be deleted', old.job_id, old.status),
            hint = 'Cancel it first: select penstock.cancel(job_id, who, why); retention removes finished jobs.';
    elsif old.status <> new.status then
        raise exception using errcode = 'PS001',
            message = format('job %s is %s and cannot become %s', old.job_id, old.status, new.status),
            hint = 'Terminal jobs stay as they are: replay a dead letter to run its work again.';
    elsif new.attempt_count < old.attempt_count or new.reclaim_count < old.reclaim_count then
        raise exception using errcode = 'PS001',
            message = format('job %s: attempts and reclaims that were counted stay counted', old.job_id),
            hint = 'Replay its dead letter: a replay begins with a fresh budget.';
    else
        raise exception using errcode = 'PS001',
            message = format('job %s: its identity, its payload, its fence or its first provider batch cannot be changed', old.job_id),
            hint = 'Cancel the job and enqueue a new one.';
    end if;
end
$$;

create or replace trigger jobs_legal_moves before update on penstock.jobs for each row
    when (not (
            old.status = new.status
            or (old.status = 'queued' and new.status = 'processing' and new.claim_seq > old.claim_seq)
            or (old.status = 'processing' and new.status in ('completed', 'queued', 'failed', 'canceled', 'batch_submitted'))
            or (old.status = 'batch_submitted' and new.status in ('completed', 'queued', 'failed', 'canceled'))
            or (old.status = 'queued' and new.status = 'canceled'))
        or new.claim_seq < old.claim_seq
        or new.attempt_count < old.attempt_count
        or new.reclaim_count < old.reclaim_count
        or new.job_id <> old.job_id
        or new.job_type <> old.job_type
        or new.created_at <> old.created_at
        or new.idempotency_key is distinct from old.idempotency_key
        or (old.provider_batch_id is not null and new.provider_batch_id is distinct from old.provider_batch_id))
    execute function penstock.refuse_illegal_change();

-- Legal moves that are not a worker's to make: to cancel a job that it does not hold, to touch one that has ended, to take
-- a claim over or move a fence without a claim, and to put off a job that waits.
create function penstock.refuse_foreign_move() returns trigger
    language plpgsql
as $$
begin
    if penstock.is_owner() then
        return new;
    end if;
    if new.status = 'canceled' and old.status = 'processing' and new.claimed_by = old.claimed_by
       and not exists (select from penstock.workers w
                        where w.worker_id = old.claimed_by and w.db_user <> session_user) then
        return new; -- a handler gave its own job up
    end if;
    raise exception using errcode = '42501',
        message = format('%s may not make this change: job %s is %s', session_user, old.job_id, old.status),
        hint = case when new.status = 'canceled' then 'An operator cancels jobs: select penstock.cancel(job_id, who, why).'
                    else 'What has ended stays as it is, a claim is its holder''s, and a queued job keeps its time.' end;
end
$$;

create trigger jobs_own_moves before update on penstock.jobs for each row
    when (old.finished_at is not null
        or (new.status = 'canceled' and old.status <> 'canceled')
        or (old.status = new.status
            and (new.claim_seq <> old.claim_seq
                 or new.claimed_by is distinct from old.claimed_by
                 or (old.status = 'queued' and new.run_at <> old.run_at))))
    execute function penstock.refuse_foreign_move();

-- Append-only for all; retention removes what is old by functions of the owner.
create or replace function penstock.refuse_rewriting() returns trigger
    language plpgsql
as $$
begin
    if tg_op = 'DELETE' and current_setting('penstock.pruning', true) = 'on' and penstock.is_owner() then
        return old;
    end if;
    raise exception using errcode = 'PS002',
        message = format('%s is append-only', tg_table_name),
        hint = 'Retention prunes old rows: penstock run retention.';
end
$$;
