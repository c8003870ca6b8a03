-- A suspect: a worker process ended while it held this job, so the job may be what ended it. It runs alone in a process,
-- until an attempt of it has ended otherwise (C-13). A suspect that waits is not ready, so no claim of other jobs comes
-- upon it; the flag says nothing about a job that is ready. Until reserved_until it is not to be had: it is set aside for a
-- worker that is letting go of its other jobs, or it was given back for a while.
alter table penstock.jobs
    add column suspect boolean not null default false,
    add column reserved_until timestamptz;
create index jobs_suspect on penstock.jobs (job_type, priority, created_at, job_id)
    where status = 'queued' and suspect and not ready;

-- A worker sets a suspect aside for moments; a reservation for years would hide the job.
create function penstock.refuse_long_reservation() returns trigger
    language plpgsql
as $$
begin
    if new.reserved_until > penstock.now() + interval '5 minutes' and not penstock.is_owner() then
        raise exception using errcode = '42501',
            message = format('%s may not set job %s aside until %s', session_user, old.job_id, new.reserved_until),
            hint = 'A worker sets a suspect aside for half a minute and says so again while it lives.';
    end if;
    return new;
end
$$;
create trigger jobs_reserved_briefly before update of reserved_until on penstock.jobs for each row
    when (old.status = 'queued' and new.status = 'queued' and new.reserved_until is distinct from old.reserved_until)
    execute function penstock.refuse_long_reservation();
