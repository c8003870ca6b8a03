-- Budget and results of a staged job.
select s.stage, s.attempts, s.finished_at is not null as finished, s.result::text as result
  from penstock.stages as s where s.job_id = $1
