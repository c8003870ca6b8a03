-- Records that are a worker's to write and nobody's to rewrite: what was counted stays counted, what has ended stays ended.

-- For every table below: the change is the owner's alone, by hand or through a function that runs as the owner.
create function penstock.refuse_foreign_change() returns trigger
    language plpgsql
as $$
begin
    if penstock.is_owner() then
        return new;
    end if;
    raise exception using errcode = '42501',
        message = format('%s may not rewrite what is recorded in %s', session_user, tg_table_name),
        hint = 'Counts rise, ends stay, and identities are fixed; correct it as the owner of the schema.';
end
$$;

create trigger stages_kept before update on penstock.stages for each row
    when (new.attempts < old.attempts or new.job_id <> old.job_id or new.stage <> old.stage
        or (old.finished_at is not null
            and (new.finished_at is distinct from old.finished_at or new.result is distinct from old.result)))
    execute function penstock.refuse_foreign_change();

create trigger runs_kept before update on penstock.runs for each row
    when ((new.run_id, new.function, new.trigger, new.worker_id, new.profile, new.schedule, new.due_at, new.started_at)
            is distinct from
          (old.run_id, old.function, old.trigger, old.worker_id, old.profile, old.schedule, old.due_at, old.started_at)
        or new.claimed_count < old.claimed_count or new.succeeded_count < old.succeeded_count
        or new.failed_count < old.failed_count or new.requeued_count < old.requeued_count
        or new.canceled_count < old.canceled_count or new.lost_count < old.lost_count
        or (old.finished_at is not null and new.finished_at is null))
    execute function penstock.refuse_foreign_change();

create trigger effects_kept before update on penstock.effects for each row
    when (new.effect_key <> old.effect_key or new.kind <> old.kind or new.token <> old.token
        or new.perform_count < old.perform_count or old.state = 'done')
    execute function penstock.refuse_foreign_change();

create trigger batches_kept before update on penstock.batches for each row
    when ((new.batch_id, new.job_type, new.stage, new.adapter, new.base_url, new.provider, new.model, new.prompt_version,
           new.policy_version, new.execution_mode, new.lane, new.source_locale, new.target_locale, new.item_count,
           new.body_bytes, new.body_sha256, new.created_at)
            is distinct from
          (old.batch_id, old.job_type, old.stage, old.adapter, old.base_url, old.provider, old.model, old.prompt_version,
           old.policy_version, old.execution_mode, old.lane, old.source_locale, old.target_locale, old.item_count,
           old.body_bytes, old.body_sha256, old.created_at)
        or not (new.state = old.state
                or (old.state = 'building' and new.state in ('uncertain', 'submitted', 'abandoned'))
                or (old.state = 'uncertain' and new.state in ('submitted', 'abandoned'))
                or (old.state = 'submitted' and new.state = 'collected'))
        or (old.provider_batch_id is not null and new.provider_batch_id is distinct from old.provider_batch_id)
        or (old.submitted_at is not null and new.submitted_at is distinct from old.submitted_at)
        or (old.cancel_asked_at is not null and new.cancel_asked_at is null)
        or (old.erase_asked_at is not null and new.erase_asked_at is null)
        or (old.files_deleted_at is not null and new.files_deleted_at is null))
    execute function penstock.refuse_foreign_change();

create trigger batch_items_kept before update on penstock.batch_items for each row
    when (old.state <> 'open'
        or (new.batch_id, new.batch_item_index, new.job_id, new.claim_seq, new.attempt, new.custom_id)
            is distinct from
           (old.batch_id, old.batch_item_index, old.job_id, old.claim_seq, old.attempt, old.custom_id))
    execute function penstock.refuse_foreign_change();

-- Which login a worker is. Nobody writes it: it is the login of the session that took the name.
alter table penstock.workers add column db_user name;
alter table penstock.workers alter column db_user set default session_user;

-- A name belongs to the login that took it until its worker has stopped or has been silent for a minute.
create function penstock.keep_worker_login() returns trigger
    language plpgsql
as $$
begin
    if old.db_user is not null and old.stopped_at is null and old.heartbeat_at > penstock.now() - interval '1 minute'
       and not penstock.is_owner() then
        raise exception using errcode = '42501',
            message = format('worker %s is a worker of the login %s', old.worker_id, old.db_user),
            hint = 'Give each login worker names of its own: PENSTOCK_WORKER_NAME, or --name.';
    end if;
    if new.instance <> old.instance or old.db_user is null then
        new.db_user := session_user;
    end if;
    return new;
end
$$;
create trigger workers_of_their_login before update on penstock.workers for each row
    when (old.db_user is distinct from session_user::name)
    execute function penstock.keep_worker_login();

-- The dead letter of a job that has just failed. A replay's failure reopens its original's row; the same
-- non-retryable class again is for engineering (E-45, C-51). Runs as the owner and so looks at the job itself: it has
-- failed, it has no letter for this failure yet, and whose replay it is stands in its row.
create or replace function penstock.bury(
    p_job_id uuid, p_replay_of uuid, p_type text, p_stage text, p_class text, p_retryable boolean, p_reason text,
    p_stack text, p_context jsonb, p_attempts integer, p_first timestamptz, p_alert text) returns void
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    at timestamptz := penstock.now();
    job record;
    letter record;
    again boolean;
begin
    select j.status, j.job_type, coalesce(j.replay_of_job_id, j.job_id) as original into job
      from penstock.jobs j where j.job_id = p_job_id;
    if not found or job.status <> 'failed' then
        raise exception using errcode = 'PS001', message = format('job %s has not failed: it gets no dead letter', p_job_id);
    end if;
    select d.dead_letter_id, d.last_job_id, d.error_class, d.retryable into letter
      from penstock.dead_letters d where d.job_id = job.original for update;
    if found then
        if letter.last_job_id = p_job_id then
            raise exception using errcode = 'PS001', message = format('job %s has its dead letter', p_job_id);
        end if;
        again := letter.error_class = p_class and not p_retryable;
        update penstock.dead_letters d
           set last_job_id = p_job_id, stage = p_stage, error_class = p_class, retryable = p_retryable, reason = p_reason,
               last_stack = p_stack, sanitized_context = p_context, attempts = p_attempts,
               first_failure_at = least(coalesce(p_first, at), at), last_failure_at = at,
               state = 'open', cause = null, remediation = null, ticket = null, replay_safe = null, closed_at = null,
               escalated_at = case when again or p_alert = 'escalation' then at else d.escalated_at end
         where d.dead_letter_id = letter.dead_letter_id;
        insert into penstock.dead_letter_events (dead_letter_id, step, operator, detail)
        values (letter.dead_letter_id, 'reopened', 'penstock', jsonb_build_object('job_id', p_job_id, 'error_class', p_class));
        if again then
            insert into penstock.alerts (kind, severity, subject)
            values ('replay_failed_again', 'escalation',
                    jsonb_build_object('dead_letter_id', letter.dead_letter_id, 'job_id', p_job_id, 'code', p_class));
        end if;
    else
        insert into penstock.dead_letters (dead_letter_id, job_id, last_job_id, job_type, stage, error_class, retryable, reason,
            last_stack, sanitized_context, attempts, first_failure_at, last_failure_at, created_at, escalated_at)
        values (penstock.uuid7(), job.original, p_job_id, job.job_type, p_stage, p_class, p_retryable, p_reason,
            p_stack, p_context, p_attempts, least(coalesce(p_first, at), at), at, at,
            case when p_alert = 'escalation' then at end);
    end if;
    if p_alert is not null then
        insert into penstock.alerts (kind, severity, subject)
        values (case p_alert when 'page' then 'runtime_bug' when 'alert' then 'effect_uncertain' else 'unexpected_reject' end, p_alert,
                jsonb_build_object('job_id', p_job_id, 'job_type', job.job_type, 'stage', p_stage, 'code', p_class));
    end if;
end
$$;

-- A job that ends as failed has its dead letter when the transaction commits, also when a worker's login typed the end by
-- hand. The owner's repairs are the owner's.
create function penstock.refuse_silent_failure() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from penstock.dead_letters d
                    where d.job_id = coalesce(new.replay_of_job_id, new.job_id) and d.last_job_id = new.job_id)
       and exists (select from penstock.jobs j where j.job_id = new.job_id)
       and not pg_has_role(session_user, (select n.nspowner from pg_namespace n where n.nspname = 'penstock'), 'member') then
        raise exception using errcode = 'PS001', message = format('job %s failed without a dead letter', new.job_id),
            hint = 'Every failure leaves one: penstock.bury(...) writes it in the same transaction.';
    end if;
    return null;
end
$$;
create constraint trigger jobs_fail_with_a_letter after update on penstock.jobs deferrable initially deferred
    for each row when (new.status = 'failed' and old.status <> 'failed')
    execute function penstock.refuse_silent_failure();
