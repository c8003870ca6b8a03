-- Batches of a type that a collector's run has something to do about: open ones, doubts, and what is watched for.
select count(*)
  from penstock.batches as b
 where b.job_type = $1
   and (b.state in ('building', 'uncertain', 'submitted')
        or (b.state = 'abandoned' and b.next_poll_at <= penstock.now()))
