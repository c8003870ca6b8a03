-- Effects of one job, or the newest of a state; open ones come from their own index.
select effect_key, kind, state, job_id, claim_seq, perform_count, intended_at, settled_at, done_at
  from penstock.effects
 where ($1::uuid is null or job_id = $1) and ($2::text is null or state = $2) and ($3::text is null or kind = $3)
 order by intended_at desc
 limit $4
