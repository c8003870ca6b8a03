-- What each role may do. Roles belong to the cluster and are made by `penstock roles create`; this function gives those
-- that exist their rights in this database, and can be run again at any time.
create function penstock.apply_grants() returns text[]
    language plpgsql volatile
as $$
declare
    found_roles text[];
    role text;
begin
    select coalesce(array_agg(r.rolname::text order by r.rolname), '{}') into found_roles
      from pg_roles r
     where r.rolname in ('penstock_orchestrator', 'penstock_worker', 'penstock_frontend', 'penstock_operator');
    revoke all on all tables in schema penstock from public;
    revoke all on all functions in schema penstock from public;
    foreach role in array found_roles loop
        execute format('grant usage on schema penstock to %I', role);
        execute format('grant execute on function penstock.now(), penstock.uuid7() to %I', role);
        execute format('grant select on penstock.clock to %I', role);
    end loop;
    if 'penstock_orchestrator' = any(found_roles) then
        grant execute on function
            penstock.put_job(text, text, text, timestamptz, interval, smallint, text, uuid, boolean),
            penstock.put_jobs(text, uuid[], text[], text[], timestamptz, interval, smallint, text[], boolean),
            penstock.enqueue(text, jsonb, text, timestamptz, interval, integer, text),
            penstock.raise_refusal(text, text), penstock.poke(text, text) to penstock_orchestrator;
        grant select on penstock.types, penstock.schema_version to penstock_orchestrator;
        grant select (job_id, job_type, status, idempotency_key, created_at, finished_at, superseded_by_job_id)
            on penstock.jobs to penstock_orchestrator;
    end if;
    if 'penstock_worker' = any(found_roles) then
        grant select, update on penstock.jobs to penstock_worker;
        grant select, insert, update on penstock.types, penstock.rates, penstock.stages, penstock.runs, penstock.skips,
            penstock.workers, penstock.schedules, penstock.alerts, penstock.effects, penstock.effect_attempts,
            penstock.dead_letters, penstock.dead_letter_events to penstock_worker;
        grant delete on penstock.rates to penstock_worker;
        grant select on penstock.job_events, penstock.job_stages, penstock.kept_keys, penstock.schema_version,
            penstock.dead_letter_overview, penstock.prunable_jobs, penstock.prunable_effects to penstock_worker;
        grant execute on all functions in schema penstock to penstock_worker;
        revoke execute on function penstock.cancel(uuid, text, text), penstock.resolve_effect(text, boolean, text, jsonb),
            penstock.apply_grants() from penstock_worker;
    end if;
    if 'penstock_operator' = any(found_roles) then
        grant select on all tables in schema penstock to penstock_operator;
        grant insert, update on penstock.dead_letters, penstock.dead_letter_events, penstock.alerts, penstock.schedules,
            penstock.types, penstock.runs to penstock_operator;
        grant insert, update on penstock.jobs, penstock.stages to penstock_operator;
        grant execute on all functions in schema penstock to penstock_operator;
        revoke execute on function penstock.apply_grants() from penstock_operator;
    end if;
    return found_roles;
end
$$;
