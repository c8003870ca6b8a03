-- The moves behind the outbox. Each is given the job as it is under its lock.

-- A lease that a statement asks for, as a span by the clock of the database; five minutes when it names none (D-45).
create function vault.outbox_lease(p_job penstock.jobs, p_lease interval) returns timestamptz
    language plpgsql stable
as $$
begin
    if p_lease <= interval '0' or p_lease > interval '1 day' then
        raise exception using errcode = '22023',
            message = format('job %s: a lease ends within a day, and not before it begins', p_job.job_id);
    end if;
    return penstock.now() + coalesce(p_lease, interval '5 minutes');
end
$$;

-- A claim by a legacy worker: a new fence, a lease, a name, and no run, by which it is told from the engine's. While the
-- type is gated (paused, breaker, limits) only the engine's workers claim: they know how to count.
create function vault.claim_for_outbox(p_job penstock.jobs, p_worker text, p_lease interval) returns boolean
    language plpgsql volatile
as $$
begin
    if exists (select from penstock.types t where t.job_type = p_job.job_type and t.gated) then
        return false;
    end if;
    update penstock.jobs j
       set status = 'processing', claim_seq = j.claim_seq + 1, claimed_by = coalesce(p_worker, 'legacy:' || pg_backend_pid()),
           run_id = null, ready = true, claimed_at = penstock.now(), updated_at = penstock.now(),
           lease_expires_at = vault.outbox_lease(p_job, p_lease)
     where j.job_id = p_job.job_id;
    return true;
end
$$;

create function vault.renew_for_outbox(p_job penstock.jobs, p_lease interval) returns void
    language sql volatile
as $$
    update penstock.jobs j set lease_expires_at = vault.outbox_lease(p_job, p_lease), updated_at = penstock.now()
     where j.job_id = p_job.job_id and p_lease is not null
$$;

create function vault.reschedule_for_outbox(p_job penstock.jobs, p_due interval) returns void
    language sql volatile
as $$
    update penstock.jobs j
       set run_at = penstock.now() + greatest(p_due, interval '0'), ready = p_due <= interval '0', updated_at = penstock.now()
     where j.job_id = p_job.job_id and p_due is not null
$$;

create function vault.complete_for_outbox(p_job penstock.jobs) returns void
    language sql volatile
as $$
    update penstock.jobs j
       set status = 'completed', finished_at = penstock.now(), updated_at = penstock.now(), lease_expires_at = null
     where j.job_id = p_job.job_id
$$;

-- FAILED, with the one dead letter. It says how often was tried and nothing of what the error said.
create function vault.fail_for_outbox(p_job penstock.jobs, p_charged integer, p_code text, p_message text) returns void
    language plpgsql volatile
as $$
declare
    at timestamptz := penstock.now();
    attempts integer := p_job.attempt_count + 1;
    spent boolean := attempts >= p_job.max_attempts;
    class text := coalesce(p_code, 'LEGACY_FAILURE');
begin
    update penstock.jobs j
       set status = 'failed', finished_at = at, updated_at = at, lease_expires_at = null,
           attempt_count = j.attempt_count + p_charged, first_failure_at = coalesce(j.first_failure_at, at), last_error_at = at,
           last_error_code = class, last_error_message = p_message
     where j.job_id = p_job.job_id;
    perform penstock.bury(p_job.job_id, p_job.replay_of_job_id, p_job.job_type, p_job.stage, class, spent,
        case when spent then 'budget_exhausted' else 'non_retryable' end,
        class || ': reported through the outbox by ' || p_job.claimed_by || '; there is no stack',
        jsonb_build_object(
            'job_id', p_job.job_id, 'run_id', null, 'worker_id', p_job.claimed_by, 'stage', p_job.stage,
            'attempt_count', attempts, 'max_attempts', p_job.max_attempts, 'reclaim_count', p_job.reclaim_count,
            'upstream_status', null,
            'payload_hash', left(encode(sha256(convert_to(p_job.payload::text, 'UTF8')), 'hex'), 16)),
        attempts, p_job.first_failure_at, null);
end
$$;

-- PENDING again: with an attempt used it is a failure (D-60), which ends the job when the budget is spent (D-58); without
-- one the worker gave it back.
create function vault.requeue_for_outbox(p_job penstock.jobs, p_charged integer, p_due interval, p_code text, p_message text)
    returns void
    language plpgsql volatile
as $$
declare
    at timestamptz := penstock.now();
begin
    if p_charged > 0 and p_job.attempt_count + p_charged >= p_job.max_attempts then
        perform vault.fail_for_outbox(p_job, p_charged, p_code, p_message);
        return;
    end if;
    update penstock.jobs j
       set status = 'queued', run_at = at + greatest(p_due, interval '0'), ready = coalesce(p_due, interval '0') <= interval '0',
           updated_at = at, lease_expires_at = null, claimed_by = null, claimed_at = null,
           attempt_count = j.attempt_count + p_charged,
           first_failure_at = case when p_charged > 0 then coalesce(j.first_failure_at, at) else j.first_failure_at end,
           last_error_at = case when p_charged > 0 then at else j.last_error_at end,
           last_error_code = case when p_charged > 0 then coalesce(p_code, 'LEGACY_FAILURE') else j.last_error_code end,
           last_error_message = case when p_charged > 0 then p_message else j.last_error_message end
     where j.job_id = p_job.job_id;
    perform penstock.poke(t.channel, p_job.job_type) from penstock.types t where t.job_type = p_job.job_type;
end
$$;

-- An expired lease, whoever held it. What the engine's reaper does: no attempt is used, and a job that was reclaimed too
-- often ends (C-13). A job with an outside effect in doubt is left to the recovery of that effect (C-36).
create function vault.reclaim_for_outbox(p_job penstock.jobs) returns boolean
    language plpgsql volatile
as $$
declare
    at timestamptz := penstock.now();
    most integer := coalesce((select t.max_reclaims from penstock.types t where t.job_type = p_job.job_type), 5);
begin
    if exists (select from penstock.effects e
                where e.job_id = p_job.job_id and e.claim_seq = p_job.claim_seq and e.holds_claim
                  and e.state in ('intended', 'uncertain')) then
        return false;
    end if;
    update penstock.jobs j set reclaim_count = least(j.reclaim_count + 1, 32767) where j.job_id = p_job.job_id;
    if p_job.reclaim_count >= most then
        perform vault.fail_for_outbox(p_job, 0, 'LEASE_EXPIRED', 'stale_claim_requeued');
    else
        perform vault.requeue_for_outbox(p_job, 0, null, null, null);
    end if;
    return true;
end
$$;
