insert into rewrite.homes (home_id) values ($1) on conflict do nothing
