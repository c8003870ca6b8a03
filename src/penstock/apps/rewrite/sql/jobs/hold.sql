-- The job under this very claim, and then its unit, until the transaction ends (C-30). No row: the claim was lost.
with held as materialized (
    select j.job_id from penstock.jobs as j
     where j.job_id = $1 and j.claim_seq = $2 and j.status in ('processing', 'batch_submitted')
       for update
)
select true from held, lateral pg_advisory_xact_lock(rewrite.unit_lock($3, $4))
