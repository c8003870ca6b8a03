-- What they wish goes with them; what was frozen for them stays with its requests.
delete from rewrite.home_members where home_id = $1 and user_id = $2
