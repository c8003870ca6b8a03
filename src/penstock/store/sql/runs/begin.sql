-- A run without a schedule: `penstock run`. It has a record from its first moment (C-55).
insert into penstock.runs (run_id, function, trigger, worker_id, profile, started_at, max_jobs_per_run, max_runtime_seconds)
values ($1, $2, $3, $4, $5, penstock.now(), $6, $7)
returning started_at
