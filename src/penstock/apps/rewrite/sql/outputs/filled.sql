select exists (select from rewrite.rewrite_outputs where rewrite_request_id = $1 and recipient_user_id = $2)
