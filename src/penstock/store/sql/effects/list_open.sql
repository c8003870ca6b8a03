-- Effects that were intended and never marked, the oldest first: each may or may not have happened.
select effect_key, kind, state, job_id, claim_seq, perform_count, intended_at, settled_at, done_at
  from penstock.effects
 where state in ('intended', 'uncertain') and ($1::text is null or kind = $1) and ($3::uuid is null or job_id = $3)
 order by intended_at
 limit $2
