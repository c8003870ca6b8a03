select key_id, homes, last_rewrapped_at from rewrite.key_usage()
