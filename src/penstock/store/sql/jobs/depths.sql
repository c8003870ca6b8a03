-- Queued jobs of every type, due or not; a type with none shows 0. Counted from the two indexes that hold queued rows.
select t.job_type,
       (select count(*) from penstock.jobs j where j.job_type = t.job_type and j.status = 'queued' and j.ready)
     + (select count(*) from penstock.jobs j where j.job_type = t.job_type and j.status = 'queued' and not j.ready) as depth
  from penstock.types t
