select penstock.create_key($1, $2, $3, $4, $5, $6, $7, $8)
