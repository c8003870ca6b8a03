-- History that was made elsewhere: jobs of another queue that this engine takes over, and their way back. For the owner
-- alone, who migrates. A rule about moves cannot speak of moves that it never saw, so these two step past the rules
-- about beginnings and ends (02_jobs.sql); every CHECK, the audit and the one dead letter per failed job hold.

-- p_jobs is an array of objects: job_id, payload, key (null: none), status, attempt_count, created_at, run_at, claimed_at,
-- claimed_by and lease_expires_at (of a job in processing), code and message (of the last failure), reason (of the dead
-- letter). Budget, stage and audit are the type's. The end of a job that has ended is now: nobody wrote down when it was.
-- It comes set by set and is planned anew for each.
create function penstock.import_jobs(p_type text, p_jobs jsonb) returns integer
    language plpgsql volatile set plan_cache_mode = force_custom_plan
as $$
declare
    type record;
    at timestamptz := penstock.now();
    taken integer;
begin
    select t.stages[1] as stage, cardinality(t.stages) > 1 as staged, t.max_attempts, t.priority, t.audited,
           t.key_max_running is not null or t.key_rate_count is not null as keyed
      into type
      from penstock.types t where t.job_type = p_type;
    if not found then
        perform penstock.raise_refusal('PS010', p_type);
    end if;
    perform set_config('penstock.importing', 'on', true);
    insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged, job_type,
        stage, idempotency_key, limit_key, payload, status, attempt_count, claim_seq, claimed_by, claimed_at, lease_expires_at,
        finished_at, first_failure_at, last_error_at, last_error_code, last_error_message)
    select j.job_id, j.created_at, at, j.run_at, j.run_at <= at, type.priority, type.max_attempts, type.audited, type.staged,
           p_type, type.stage, p_type || ':' || j.key, case when type.keyed then '' end, j.payload, j.status, j.attempt_count,
           case when j.status = 'queued' then 0 else 1 end, j.claimed_by, j.claimed_at, j.lease_expires_at,
           case when j.status in ('completed', 'failed', 'canceled') then at end,
           case when j.code is not null then failure.moment end, case when j.code is not null then failure.moment end, j.code, j.message
      from jsonb_to_recordset(p_jobs) as j(job_id uuid, payload jsonb, key text, status text, attempt_count integer,
           created_at timestamptz, run_at timestamptz, claimed_at timestamptz, claimed_by text, lease_expires_at timestamptz,
           code text, message text)
     cross join lateral (select least(at, greatest(j.created_at, j.claimed_at)) as moment) as failure;
    get diagnostics taken = row_count;
    perform set_config('penstock.importing', '', true);

    insert into penstock.dead_letters (dead_letter_id, job_id, last_job_id, job_type, stage, error_class, retryable, reason,
        last_stack, sanitized_context, attempts, first_failure_at, last_failure_at, created_at)
    select penstock.uuid7(), j.job_id, j.job_id, p_type, j.stage, j.last_error_code, i.reason = 'budget_exhausted', i.reason,
           j.last_error_code || ': it had failed before this engine knew it; there is no stack',
           jsonb_build_object(
               'job_id', j.job_id, 'run_id', null, 'worker_id', j.claimed_by, 'stage', j.stage,
               'attempt_count', j.attempt_count, 'max_attempts', j.max_attempts, 'reclaim_count', 0, 'upstream_status', null,
               'payload_hash', left(encode(sha256(convert_to(j.payload::text, 'UTF8')), 'hex'), 16)),
           j.attempt_count, j.last_error_at, j.last_error_at, at
      from jsonb_to_recordset(p_jobs) as i(job_id uuid, status text, reason text)
      join penstock.jobs j on j.job_id = i.job_id
     where i.status = 'failed';
    return taken;
end
$$;

-- Jobs of a type leave, whatever they are at, with their stages and their dead letters; the audit stays. These, or all of
-- them where p_job_ids is null. Whoever works on one finds that its claim is lost. The caller keeps others from writing
-- jobs meanwhile, and has put away what it wants to keep.
create function penstock.remove_jobs(p_type text, p_job_ids uuid[]) returns bigint
    language plpgsql volatile set plan_cache_mode = force_custom_plan
as $$
declare
    gone bigint;
begin
    perform set_config('penstock.pruning', 'on', true);
    delete from penstock.dead_letter_events e using penstock.dead_letters d
     where d.job_type = p_type and (p_job_ids is null or d.job_id = any(p_job_ids)) and e.dead_letter_id = d.dead_letter_id;
    delete from penstock.dead_letters d where d.job_type = p_type and (p_job_ids is null or d.job_id = any(p_job_ids));
    perform set_config('penstock.pruning', '', true);
    delete from penstock.stages s using penstock.jobs j
     where j.job_type = p_type and (p_job_ids is null or j.job_id = any(p_job_ids)) and s.job_id = j.job_id;
    perform set_config('penstock.importing', 'on', true);
    delete from penstock.jobs j where j.job_type = p_type and (p_job_ids is null or j.job_id = any(p_job_ids));
    get diagnostics gone = row_count;
    perform set_config('penstock.importing', '', true);
    return gone;
end
$$;
