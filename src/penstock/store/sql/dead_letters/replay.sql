-- moves: failed -> a new job that is queued
-- A replay: a new job beside the failed one, which stays as it is (C-51).
select replay.job_id, replay.stage, replay.job_type, replay.channel from penstock.replay($1, $2, $3, $4) as replay
