select key_id, wrapped_key from rewrite.home_keys where home_id = $1
