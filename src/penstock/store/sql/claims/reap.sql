-- moves: processing -> queued, processing -> failed
select reaped.job_id, reaped.job_type, reaped.outcome from penstock.reap($1) as reaped
