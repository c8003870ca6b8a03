insert into rewrite.home_members (home_id, user_id) values ($1, $2) on conflict do nothing
