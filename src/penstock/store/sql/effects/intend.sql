-- The intent of an effect, committed before the outside world is touched; penstock.intend says what to do next.
select intent.verdict, intent.result from penstock.intend($1, $2, $3, $4, $5, $6, $7, $8) as intent
