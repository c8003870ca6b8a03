-- Somebody new, or somebody that another home knows already: nobody is told which.
insert into rewrite.users (user_id) values ($1) on conflict do nothing
