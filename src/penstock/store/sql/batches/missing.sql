-- The provider has said that there is no such batch. True when it has been saying so for the grace in which a fresh
-- batch may be missing from its lists: only then is the absence proven.
update penstock.batches as b
   set state = 'uncertain', missing_since = coalesce(b.missing_since, penstock.now())
 where b.batch_id = $1 and b.collector = $2 and b.state in ('building', 'uncertain')
returning penstock.now() - b.missing_since >= $3::interval
