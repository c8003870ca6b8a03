insert into rewrite.home_keys (home_id, key_id, wrapped_key) values ($1, $2, $3) on conflict do nothing
