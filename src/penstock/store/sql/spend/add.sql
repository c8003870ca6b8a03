-- One call outside a batch, paid for at once. True when this has spent the last of the day.
select penstock.add_spend($1, $2, $3, $4, $5, 'async', $6, $7, $8, $9, 1)
