-- A worker announces the policy of a type, or an operator syncs it. The version rises only when the policy really differs;
-- gates are the operator's and stay, limits follow the policy. What a worker may not loosen stays as it is stored, and what
-- it asked for waits in penstock.pending_policies (C-71).
insert into penstock.types as t (job_type, policy, stages, max_attempts, priority, audited, stale_counts_attempt, max_reclaims,
    replayable, steps_required, dispatch, channel, max_payload_bytes, enqueue_role, keep_finished, keep_keys,
    breaker_after, breaker_cooldown, max_running, rate_count, rate_period, key_max_running, key_rate_count, key_rate_period)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)
on conflict (job_type) do update
   set policy = excluded.policy, policy_version = t.policy_version + (t.policy is distinct from excluded.policy)::integer, stages = excluded.stages,
       max_attempts = excluded.max_attempts, priority = excluded.priority, audited = excluded.audited,
       stale_counts_attempt = excluded.stale_counts_attempt, max_reclaims = excluded.max_reclaims,
       replayable = excluded.replayable, steps_required = excluded.steps_required, dispatch = excluded.dispatch,
       channel = excluded.channel, max_payload_bytes = excluded.max_payload_bytes, enqueue_role = excluded.enqueue_role,
       keep_finished = excluded.keep_finished, keep_keys = excluded.keep_keys, breaker_after = excluded.breaker_after,
       breaker_cooldown = excluded.breaker_cooldown, max_running = excluded.max_running, rate_count = excluded.rate_count,
       rate_period = excluded.rate_period, key_max_running = excluded.key_max_running,
       key_rate_count = excluded.key_rate_count, key_rate_period = excluded.key_rate_period, synced_at = penstock.now()
 where t.policy is distinct from excluded.policy
    or exists (select from penstock.pending_policies as p where p.job_type = excluded.job_type)
