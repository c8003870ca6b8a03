-- Two requests with one key, or about one changelist, wait for each other: the second finds what the first has stored.
select pg_advisory_xact_lock(penstock.lock_key('review:' || $1::text))
