select * from rewrite.audit where rewrite_request_id = $1 order by event_id
