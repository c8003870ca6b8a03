select rewrite.cancel_open_jobs($1, $2, $3)
