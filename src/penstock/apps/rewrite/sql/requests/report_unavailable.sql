select rewrite.report_unavailable($1, $2)
