-- One job; the function is the rule (see the migrations). Every driver runs this text, with placeholders of its own
-- kind. Arguments are text wherever a caller's driver could be set to convert the type, as is usual for jsonb.
select penstock.put_job(cast($1 as text), cast($2 as text), cast($3 as text),
           cast(cast($4 as text) as timestamptz), cast(cast($5 as text) as interval), cast($6 as smallint),
           cast($7 as text), cast($8 as uuid), cast($9 as boolean), cast($10 as smallint)) as put
