-- A suspect: a worker process ended while it held this job, so the job may be what ended it. It runs alone in a process,
-- until an attempt of it has ended otherwise (C-13). A suspect that waits is not ready, so no claim of other jobs comes
-- upon it; the flag says nothing about a job that is ready. Until reserved_until it is not to be had: it is set aside for a
-- worker that is letting go of its other jobs, or it was given back for a while.
alter table penstock.jobs
    add column suspect boolean not null default false,
    add column reserved_until timestamptz;
create index jobs_suspect on penstock.jobs (job_type, priority, created_at, job_id)
    where status = 'queued' and suspect and not ready;
