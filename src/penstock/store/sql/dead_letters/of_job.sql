-- The dead letter of a job; a replay shares that of its original.
select d.dead_letter_id
  from penstock.jobs as j
  join penstock.dead_letters as d on d.job_id = coalesce(j.replay_of_job_id, j.job_id)
 where j.job_id = $1
