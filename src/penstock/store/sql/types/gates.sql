-- Which of these types are gated, and by what.
select t.job_type, t.gated, t.paused_at is not null as paused, t.breaker
  from penstock.types as t where t.job_type = any($1::text[])
