-- One job without key, time, priority or limits, which most are, and without a poke.
select penstock.put_plain($1, $2, $3, $4)
