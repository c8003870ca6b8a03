-- Two requests with one key, or about one changelist, wait for each other: the second finds what the first has stored.
select pg_advisory_xact_lock(hashtextextended('review:' || $1::text, 0))
