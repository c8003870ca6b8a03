select home_id, key_id, wrapped_key from rewrite.keys_to_rewrap($1, $2, $3)
