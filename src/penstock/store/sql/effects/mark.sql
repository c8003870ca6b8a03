-- The effect has happened. One write says so; only the claim that intended it last may make it.
with marked as (
    update penstock.effects as e
       set state = 'done', done_at = penstock.now(), result = $4::jsonb, adopted_by = null, adopted_until = null
     where e.effect_key = $1 and e.job_id = $2 and e.claim_seq = $3 and e.state in ('intended', 'uncertain')
    returning e.effect_key
), noted as (
    insert into penstock.effect_attempts (effect_key, at, action, outcome)
    select marked.effect_key, penstock.now(), 'mark', $5 from marked
)
select marked.effect_key from marked
