-- One row always; its scope is null when the key is not accepted.
select scope, home_id, user_id from penstock.check_key($1, $2)
