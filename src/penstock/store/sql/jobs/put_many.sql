-- Many jobs of one type.
select job_id, created
  from penstock.put_jobs($1, $2::uuid[], $3::jsonb[], $4::text[], $5::timestamptz[], $6::smallint, $7::text[])
