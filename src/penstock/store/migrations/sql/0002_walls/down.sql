-- Rights of the role that 0001 does not know, and what depends on what leaves.
do $$
begin
    if to_regrole('penstock_viewer') is not null then
        revoke all on all tables in schema penstock from penstock_viewer;
        revoke all on all functions in schema penstock from penstock_viewer;
        revoke all on schema penstock from penstock_viewer;
    end if;
end
$$;
drop trigger jobs_own_moves on penstock.jobs;
drop trigger jobs_fail_with_a_letter on penstock.jobs;
drop trigger types_loosened_by_operators on penstock.types;
drop trigger types_paused_by_operators on penstock.types;
drop trigger types_noted on penstock.types;
drop trigger stages_kept on penstock.stages;
drop trigger runs_kept on penstock.runs;
drop trigger effects_kept on penstock.effects;
drop trigger batches_kept on penstock.batches;
drop trigger batches_noted on penstock.batches;
drop trigger batch_items_kept on penstock.batch_items;
drop trigger workers_of_their_login on penstock.workers;
drop trigger schedules_noted on penstock.schedules;
drop trigger alerts_noted on penstock.alerts;
drop view penstock.prunable_jobs;
drop function penstock.list_keys(), penstock.take_step(uuid, text, text, jsonb, text, text, text, boolean, text),
    penstock.replay(uuid, boolean, uuid, text), penstock.refuse_step(text, uuid, text), penstock.lock_dead_letter(uuid),
    penstock.unrecorded_openings(), penstock.open_payload(uuid, text, text), penstock.note_batch_cancel(),
    penstock.note_acknowledged(), penstock.note_schedule(), penstock.note_gate(), penstock.set_retention(text, interval, text),
    penstock.refuse_silent_failure(), penstock.keep_worker_login(), penstock.refuse_foreign_change(),
    penstock.refuse_foreign_pause(), penstock.hold_loosening(), penstock.note_pending(text, jsonb, text[]), penstock.keep_stored(jsonb, jsonb, text[]),
    penstock.looser_rate(integer, interval, integer, interval), penstock.refuse_foreign_move(), penstock.lock_key(text);
drop sequence penstock.payload_openings;
drop table penstock.operator_events, penstock.pending_policies;
alter table penstock.workers drop column db_user;
alter table penstock.dead_letter_events drop column db_user;
alter table penstock.effect_attempts drop column db_user;
alter table penstock.api_keys drop column created_db_user, drop column revoked_db_user;
