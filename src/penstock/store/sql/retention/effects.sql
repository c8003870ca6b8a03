-- Effects that nobody can ask for any more.
select p.effect_key from penstock.prunable_effects as p where p.ended_at < $1 limit $2
