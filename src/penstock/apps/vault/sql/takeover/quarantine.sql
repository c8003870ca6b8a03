select q.quarantine_id, q.id, q.item_id, q.status, q.created_at, q.problem, q.at from vault.quarantined($1, $2) as q
