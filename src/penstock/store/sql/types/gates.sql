-- What holds these types back, and which of them have failures that a success would end.
select t.job_type, t.gated, t.paused_at is not null or t.breaker <> 'closed' as shut, t.breaker_failures > 0 as shaky
  from penstock.types as t where t.job_type = any($1::text[])
