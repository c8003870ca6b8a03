drop view penstock.batch_overview, penstock.job_stages, penstock.dead_letter_overview, penstock.prunable_jobs, penstock.prunable_effects;
drop function penstock.claim_gated(text, text, interval, integer, uuid),
    penstock.pick_by_key(penstock.types, integer, timestamptz), penstock.intent_held(penstock.effects, timestamptz);
drop function penstock.check_key(text, bytea), penstock.list_keys(), penstock.revoke_key(text, text),
    penstock.create_key(text, bytea, text, uuid, uuid, text, text, interval);
drop table penstock.api_keys, penstock.spend, penstock.batch_items, penstock.batches, penstock.dead_letter_events, penstock.dead_letters, penstock.effect_attempts, penstock.effects,
    penstock.alerts, penstock.schedules, penstock.workers, penstock.skips, penstock.runs, penstock.job_events,
    penstock.kept_keys, penstock.stages, penstock.jobs, penstock.rates, penstock.types;
drop function penstock.settle_items(uuid, bigint, integer[], text[], text[], timestamptz[], bigint[], bigint[], bigint[]),
    penstock.add_spend(text, text, text, text, text, text, bigint, bigint, bigint, bigint, bigint),
    penstock.apply_grants(), penstock.clear_grants(name), penstock.save_runs(jsonb), penstock.reap(integer), penstock.note_refusal(text, text),
    penstock.bury(uuid, uuid, text, text, text, boolean, text, text, jsonb, integer, timestamptz, text),
    penstock.close_breaker(text), penstock.mend_breaker(text), penstock.trip_breaker(text, text), penstock.open_breaker(text, text, interval),
    penstock.spend_rate(text, text, integer, integer, interval, timestamptz),
    penstock.rate_room(text, text, integer, interval, timestamptz),
    penstock.intend(uuid, bigint, text, text, text, text, boolean, uuid),
    penstock.resolve_effect(text, boolean, text, jsonb), penstock.reopen_effect(text, text),
    penstock.cancel(uuid, text, text), penstock.enqueue(text, jsonb, text, timestamptz, interval, integer, text, integer),
    penstock.poke(text, text), penstock.put_jobs(text, uuid[], text[], text[], timestamptz, interval, smallint, text[], boolean),
    penstock.put_plain(text, text, uuid, text),
    penstock.put_job(text, text, text, timestamptz, interval, smallint, text, uuid, boolean, smallint),
    penstock.import_jobs(text, jsonb), penstock.remove_jobs(text, uuid[]),
    penstock.keep_keys(uuid[]), penstock.prune_jobs(uuid[]), penstock.prune_effects(text[]),
    penstock.prune_audit(bigint[], interval), penstock.prune_old(text, interval, integer), penstock.tell_of_alerts(),
    penstock.refuse_unseen_keys(text[]), penstock.raise_refusal(text, text), penstock.refuse_strangers(),
    penstock.refuse_rewriting(), penstock.audit(), penstock.touch(), penstock.refuse_illegal_change(),
    penstock.uuid7(), penstock.now();
drop table penstock.clock;
drop function penstock.set_clock();
