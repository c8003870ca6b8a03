-- What the finished stages of these jobs returned.
select s.job_id, s.stage, s.result::text as result
  from penstock.stages as s
 where s.job_id = any($1::uuid[]) and s.finished_at is not null
