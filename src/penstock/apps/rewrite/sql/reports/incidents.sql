select hour, code, provider, model, execution_mode, jobs, failed, first_at, last_at from rewrite.incidents($1, $2, $3)
