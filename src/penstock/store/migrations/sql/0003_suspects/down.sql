-- Suspects that wait become jobs like any other: the promotion finds them.
drop trigger jobs_reserved_briefly on penstock.jobs;
drop function penstock.refuse_long_reservation(), penstock.claim_suspect(uuid, text, timestamptz, text, interval, uuid), penstock.apply_grants();
alter function penstock.apply_grants_0002() rename to apply_grants;
