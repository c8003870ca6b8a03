select penstock.revoke_key($1, $2)
