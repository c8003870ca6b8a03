-- How the take-over went and where it stands. A claim without a run is that of a poller of before.
select t.source_schema::text as source_schema, t.taken_at, t.seconds, t.found, t.moved::text as moved, t.given_back,
       (select count(*) from vault.outbox_quarantine) as quarantined,
       (select count(*) from penstock.jobs j
         where j.job_type = 'enrichment' and j.status = 'processing' and j.lease_expires_at is not null and j.run_id is null)
           as held_by_pollers,
       (select count(*) from penstock.jobs j where j.job_type = 'enrichment' and j.status = 'queued') as waiting
  from vault.outbox_takeover t
