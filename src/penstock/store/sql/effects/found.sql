-- A recovery has found that the effects had happened. Only the one that adopted them may say so.
with marked as (
    update penstock.effects as e
       set state = 'done', done_at = penstock.now(), settled_at = penstock.now(), result = $3::jsonb,
           adopted_by = null, adopted_until = null
     where e.effect_key = any($1::text[]) and e.adopted_by = $2 and e.state in ('intended', 'uncertain')
    returning e.effect_key
), noted as (
    insert into penstock.effect_attempts (effect_key, at, action, outcome)
    select marked.effect_key, penstock.now(), 'settle', 'found' from marked
)
select marked.effect_key from marked
