select * from rewrite.job_record where rewrite_request_id = $1
