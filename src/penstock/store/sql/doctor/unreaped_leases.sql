select count(*)
  from penstock.jobs as j
 where j.status = 'processing' and j.lease_expires_at is not null
   and j.lease_expires_at < penstock.now() - $1::interval
