insert into rewrite.preferences (home_id, user_id, tone, blocked_terms) values ($1, $2, $3, $4)
on conflict (home_id, user_id) do update
   set tone = excluded.tone, blocked_terms = excluded.blocked_terms, updated_at = penstock.now()
