drop view penstock.job_stages;
drop function penstock.claim_gated(text, text, interval, integer, uuid);
drop table penstock.dead_letter_events, penstock.dead_letters, penstock.effect_attempts, penstock.effects,
    penstock.alerts, penstock.schedules, penstock.workers, penstock.skips, penstock.runs, penstock.job_events,
    penstock.kept_keys, penstock.stages, penstock.jobs, penstock.rates, penstock.types;
drop function penstock.apply_grants(), penstock.save_runs(jsonb), penstock.reap(integer),
    penstock.bury(uuid, uuid, text, text, text, boolean, text, text, jsonb, integer, timestamptz, text),
    penstock.close_breaker(text), penstock.trip_breaker(text, text),
    penstock.spend_tokens(text, text, integer, integer, interval, timestamptz),
    penstock.rate_tokens(text, text, integer, interval, timestamptz),
    penstock.cancel(uuid, text, text), penstock.enqueue(text, jsonb, text, timestamptz, interval, integer, text),
    penstock.poke(text, text), penstock.put_jobs(text, uuid[], jsonb[], text[], timestamptz[], smallint, text[]),
    penstock.put_job(text, jsonb, text, timestamptz, interval, smallint, text, smallint, uuid),
    penstock.refuse_rewriting(), penstock.audit(), penstock.touch(), penstock.refuse_illegal_change(),
    penstock.uuid7(), penstock.now();
drop table penstock.clock;
