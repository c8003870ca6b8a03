select batches, due_now, shared, canceled from rewrite.erase_files($1)
