-- The outside is told one code, whatever it was (R-23).
update rewrite.rewrite_requests set status = 'failed', failure_code = 'rewrite_unavailable'
 where rewrite_request_id = $1 and status in ('received', 'queued')
returning true
