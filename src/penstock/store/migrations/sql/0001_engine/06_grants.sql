-- Takes every right in a schema away from the public and from the roles that exist, but to look into it and to see its
-- version; returns these roles. What each may do is given anew afterwards, here and by every application.
create function penstock.clear_grants(p_schema name) returns text[]
    language plpgsql volatile
as $$
declare
    found_roles text[];
    role text;
begin
    select coalesce(array_agg(r.rolname::text order by r.rolname), '{}') into found_roles
      from pg_roles r
     where r.rolname in ('penstock_orchestrator', 'penstock_worker', 'penstock_frontend', 'penstock_operator');
    execute format('revoke all on all tables in schema %I from public', p_schema);
    execute format('revoke all on all functions in schema %I from public', p_schema);
    foreach role in array found_roles loop
        execute format('revoke all on all tables in schema %I from %I', p_schema, role);
        execute format('revoke all on all functions in schema %I from %I', p_schema, role);
        execute format('grant usage on schema %I to %I', p_schema, role);
        execute format('grant select on %I.schema_version to %I', p_schema, role);
    end loop;
    return found_roles;
end
$$;

-- What each role may do. Roles belong to the cluster and are made by `penstock roles create`; this function gives those
-- that exist their rights in this database and takes away all others. It can be run again at any time, and every
-- migration ends with it.
create function penstock.apply_grants() returns text[]
    language plpgsql volatile
as $$
declare
    found_roles text[] := penstock.clear_grants('penstock');
    role text;
begin
    foreach role in array found_roles loop
        execute format('grant execute on function penstock.now(), penstock.uuid7() to %I', role);
        execute format('grant select on penstock.clock to %I', role);
    end loop;

    -- Enqueues, through the functions alone, and sees what became of its jobs; never a payload.
    if 'penstock_orchestrator' = any(found_roles) then
        grant execute on function
            penstock.put_job(text, text, text, timestamptz, interval, smallint, text, uuid, boolean, smallint),
            penstock.put_plain(text, text, uuid, text),
            penstock.put_jobs(text, uuid[], text[], text[], timestamptz, interval, smallint, text[], boolean),
            penstock.enqueue(text, jsonb, text, timestamptz, interval, integer, text, integer),
            penstock.raise_refusal(text, text), penstock.poke(text, text), penstock.check_key(text, bytea)
            to penstock_orchestrator;
        grant select on penstock.types to penstock_orchestrator;
        grant select (job_id, job_type, status, idempotency_key, created_at, finished_at, superseded_by_job_id)
            on penstock.jobs to penstock_orchestrator;
    end if;

    -- Sees nothing of the engine; its applications give it views of their own. It checks the keys of those who come.
    if 'penstock_frontend' = any(found_roles) then
        grant execute on function penstock.check_key(text, bytea) to penstock_frontend;
    end if;

    -- Claims and records. Who a job is, what it carries and what it may cost are not a worker's to change.
    if 'penstock_worker' = any(found_roles) then
        grant select on penstock.jobs to penstock_worker;
        grant update (status, stage, staged, ready, run_at, claim_seq, claimed_by, claimed_at, lease_expires_at, run_id,
                      attempt_count, reclaim_count, finished_at, updated_at, first_failure_at, last_error_at,
                      last_error_code, last_error_message, provider_batch_id) on penstock.jobs to penstock_worker;
        grant select, insert, update on penstock.types, penstock.rates, penstock.stages, penstock.runs, penstock.workers,
            penstock.schedules, penstock.alerts, penstock.effects, penstock.dead_letters, penstock.batches,
            penstock.batch_items, penstock.spend to penstock_worker;
        grant delete on penstock.rates to penstock_worker;
        grant select, insert on penstock.skips, penstock.effect_attempts, penstock.dead_letter_events to penstock_worker;
        grant select on penstock.job_events, penstock.job_stages, penstock.kept_keys, penstock.dead_letter_overview,
            penstock.prunable_jobs, penstock.prunable_effects, penstock.batch_overview to penstock_worker;
        grant execute on all functions in schema penstock to penstock_worker;
        revoke execute on function penstock.cancel(uuid, text, text), penstock.resolve_effect(text, boolean, text, jsonb),
            penstock.check_key(text, bytea), penstock.list_keys(), penstock.revoke_key(text, text),
            penstock.create_key(text, bytea, text, uuid, uuid, text, text, interval), penstock.apply_grants(),
            penstock.clear_grants(name), penstock.import_jobs(text, jsonb), penstock.remove_jobs(text, uuid[]) from penstock_worker;
    end if;

    -- Sees everything; cancels, replays, settles effects, moves gates and schedules, prunes what is old. Cannot claim,
    -- record or enqueue.
    if 'penstock_operator' = any(found_roles) then
        grant select on all tables in schema penstock to penstock_operator;
        revoke all on penstock.api_keys from penstock_operator; -- seen through penstock.list_keys, without the hashes
        grant insert (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged, job_type,
                      stage, idempotency_key, limit_key, replay_of_job_id, payload),
              update (superseded_by_job_id, updated_at) on penstock.jobs to penstock_operator;
        grant insert on penstock.stages, penstock.dead_letter_events, penstock.alerts to penstock_operator;
        grant update on penstock.dead_letters to penstock_operator;
        grant update (cancel_asked_at, next_poll_at) on penstock.batches to penstock_operator;
        grant update (acknowledged_at, acknowledged_by, announced_at, announce_tries) on penstock.alerts to penstock_operator;
        grant update (enabled, next_due_at, requested_at, requested_by) on penstock.schedules to penstock_operator;
        grant update (paused_at, paused_by, pause_reason, breaker, breaker_failures, breaker_code, breaker_opened_at,
                      breaker_probe_at, max_running, rate_count, rate_period, key_max_running, key_rate_count,
                      key_rate_period) on penstock.types to penstock_operator;
        grant execute on function
            penstock.cancel(uuid, text, text), penstock.close_breaker(text), penstock.poke(text, text),
            penstock.resolve_effect(text, boolean, text, jsonb), penstock.reopen_effect(text, text),
            penstock.keep_keys(uuid[]), penstock.prune_jobs(uuid[]), penstock.prune_effects(text[]),
            penstock.prune_audit(bigint[], interval), penstock.prune_old(text, interval, integer),
            penstock.check_key(text, bytea), penstock.list_keys(), penstock.revoke_key(text, text),
            penstock.create_key(text, bytea, text, uuid, uuid, text, text, interval) to penstock_operator;
    end if;
    return found_roles;
end
$$;
