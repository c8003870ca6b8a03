-- One job. The function is the rule; see the migrations.
select job_id, created, channel
  from penstock.put_job($1, $2::jsonb, $3, $4, $5, $6::smallint, $7, $8::smallint, $9)
