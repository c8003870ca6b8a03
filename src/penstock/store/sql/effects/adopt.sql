-- A recovery takes over open intents of a kind whose claims are no longer alive, for a time: two recoveries never
-- work on one intent.
update penstock.effects as effect
   set adopted_by = $2, adopted_until = penstock.now() + $3::interval
 where effect.effect_key = any(array(
       select e.effect_key from penstock.effects as e
        where e.kind = $1 and e.state in ('intended', 'uncertain') and e.intended_at <= penstock.now() - $4::interval
          and (e.adopted_until is null or e.adopted_until <= penstock.now())
          and not exists (select from penstock.jobs as j
                           where j.job_id = e.job_id and j.claim_seq = e.claim_seq and j.status = 'processing'
                             and j.lease_expires_at > penstock.now())
        order by e.intended_at
        limit $5
          for update skip locked))
returning effect.effect_key, effect.kind, effect.token, effect.state, effect.job_id, effect.claim_seq, effect.holds_claim,
          effect.perform_count, effect.intended_at
