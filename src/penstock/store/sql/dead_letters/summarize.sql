-- What waits for an operator, by what went wrong.
select d.job_type, d.stage, d.error_class, d.state, count(*) as letters, min(d.first_failure_at) as oldest,
       count(*) filter (where d.escalated_at is not null) as escalated
  from penstock.dead_letters as d
 where d.state <> 'resolved'
 group by d.job_type, d.stage, d.error_class, d.state
 order by letters desc, d.job_type, d.stage, d.error_class, d.state
