select exists (select from rewrite.homes where home_id = $1 and erased_at is null)
