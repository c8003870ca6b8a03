-- The records of runs that are over; a run that is known is brought up to date. Drains share a record and its counts only
-- grow (C-55): an older state that arrives late, behind a connection that was cut, changes nothing.
create or replace function penstock.save_runs(p_runs jsonb) returns void
    language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    insert into penstock.runs as run (run_id, function, trigger, worker_id, profile, started_at, finished_at,
        max_jobs_per_run, max_runtime_seconds, claimed_count, succeeded_count, failed_count, requeued_count,
        canceled_count, lost_count, left_waiting_count, rate_limited_count, by_model, by_error)
    select r.run_id, r.function, r.trigger, r.worker_id, r.profile, penstock.now() - make_interval(secs => r.seconds),
           penstock.now(), r.max_jobs_per_run, r.max_runtime_seconds, r.claimed_count, r.succeeded_count,
           r.failed_count, r.requeued_count, r.canceled_count, r.lost_count, r.left_waiting_count,
           r.rate_limited_count, r.by_model, r.by_error
      from jsonb_to_recordset(p_runs) as r(run_id uuid, function text, trigger text, worker_id text, profile text,
           seconds double precision, max_jobs_per_run integer, max_runtime_seconds integer, claimed_count integer,
           succeeded_count integer, failed_count integer, requeued_count integer, canceled_count integer,
           lost_count integer, left_waiting_count integer, rate_limited_count integer, by_model jsonb, by_error jsonb)
    on conflict (run_id) do update
       set finished_at = excluded.finished_at, claimed_count = excluded.claimed_count,
           succeeded_count = excluded.succeeded_count, failed_count = excluded.failed_count,
           requeued_count = excluded.requeued_count, canceled_count = excluded.canceled_count,
           lost_count = excluded.lost_count, left_waiting_count = excluded.left_waiting_count,
           rate_limited_count = excluded.rate_limited_count, by_model = excluded.by_model, by_error = excluded.by_error
     where excluded.claimed_count >= run.claimed_count
$$;
