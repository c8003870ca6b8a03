-- One job without key, time, priority or limits, which most are: half the arguments of `put` to send and to read.
select penstock.put_job($1, $2, null, null, null, null, null, $3, $4, null) as put
