-- Many jobs of one type, all or none. The transaction's id tells later whether a COMMIT without an answer went through.
select job_ids, created, channel, cast(pg_current_xact_id() as text) as transaction_id
  from penstock.put_jobs(cast($1 as text), cast($2 as uuid[]), cast($3 as text[]), cast($4 as text[]),
                         cast(cast($5 as text) as timestamptz), cast(cast($6 as text) as interval), cast($7 as smallint),
                         cast($8 as text[]), cast($9 as boolean))
