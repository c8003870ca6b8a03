-- What waits for a run of these types: eligible jobs (Q-61), and claims whose lease has run out.
select (select count(*) from penstock.jobs as j
         where j.job_type = any($1::text[]) and j.status = 'queued' and j.ready)
     + (select count(*) from penstock.jobs as j
         where j.job_type = any($1::text[]) and j.status = 'queued' and not j.ready and j.run_at <= penstock.now()) as eligible,
       (select count(*) from penstock.jobs as j
         where j.job_type = any($1::text[]) and j.status = 'processing' and j.lease_expires_at < penstock.now()) as expired
