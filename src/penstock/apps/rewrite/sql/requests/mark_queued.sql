update rewrite.rewrite_requests set status = 'queued'
 where rewrite_request_id = $1 and status = 'received'
returning true
