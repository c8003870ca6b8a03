-- A replay: a new job beside the failed one, which stays as it is (C-51). It has the payload and the rank of the
-- original, a fresh budget, and the results of the stages that were finished; $2 asks for a full restart, without them.
-- The caller holds the letter's lock and has checked that a replay may start. The number in the key is the first free
-- one: an application may have used such a key itself.
with letter as (
    select d.dead_letter_id, d.job_id, d.last_job_id, d.stage, d.replay_count
      from penstock.dead_letters as d where d.dead_letter_id = $1
), original as (
    select j.*, t.stages, t.audited as type_audited, t.max_attempts as type_attempts,
           t.key_max_running is not null or t.key_rate_count is not null as keyed,
           case when t.dispatch = 'notify' then t.channel end as channel
      from letter
      join penstock.jobs as j on j.job_id = letter.job_id
      join penstock.types as t on t.job_type = j.job_type
), ordinal as (
    select min(n.n) as n
      from letter, original, generate_series(letter.replay_count + 1, letter.replay_count + 1000) as n(n)
     where not exists (select from penstock.jobs as taken
                        where taken.idempotency_key = original.idempotency_key || '#replay-' || n.n)
       and not exists (select from penstock.kept_keys as kept
                        where kept.idempotency_key = original.idempotency_key || '#replay-' || n.n)
), replay as (
    insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, audited, staged,
                               job_type, stage, idempotency_key, limit_key, replay_of_job_id, payload)
    select $3, penstock.now(), penstock.now(), penstock.now(), true, original.priority,
           least(original.max_attempts, original.type_attempts), original.type_audited, cardinality(original.stages) > 1,
           original.job_type, case when $2 then original.stages[1] else letter.stage end,
           original.idempotency_key || '#replay-' || ordinal.n,
           case when original.keyed then coalesce(original.limit_key, '') else original.limit_key end,
           original.job_id, original.payload
      from letter, original, ordinal
    returning job_id, stage
), copied as (
    insert into penstock.stages (job_id, stage, attempts, first_failure_at, last_failure_at, finished_at, result)
    select replay.job_id, s.stage, s.attempts, s.first_failure_at, s.last_failure_at, s.finished_at, s.result
      from replay, letter
      join penstock.stages as s on s.job_id = letter.last_job_id and s.finished_at is not null and not $2
), superseded as (
    update penstock.jobs as j
       set superseded_by_job_id = replay.job_id, updated_at = penstock.now()
      from replay, letter
     where j.job_id in (letter.job_id, letter.last_job_id)
), moved as (
    update penstock.dead_letters as d
       set state = 'replaying', replay_count = ordinal.n, replay_job_id = replay.job_id
      from replay, ordinal
     where d.dead_letter_id = $1
), noted as (
    insert into penstock.dead_letter_events (dead_letter_id, step, operator, detail)
    select $1, 'replayed', $4,
           jsonb_build_object('job_id', replay.job_id, 'stage', replay.stage, 'full_restart', $2::boolean)
      from replay
)
select replay.job_id, replay.stage, original.job_type, original.channel from replay, original
