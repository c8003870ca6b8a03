-- With the output stored and in the transaction that completes the job (A-66). A second time changes nothing.
update rewrite.rewrite_requests set status = 'completed', rewrite_completed_at = penstock.now()
 where rewrite_request_id = $1 and status = 'queued'
returning true
