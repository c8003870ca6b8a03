update rewrite.users set locale_raw = $2 where user_id = $1 and locale_raw is distinct from $2
