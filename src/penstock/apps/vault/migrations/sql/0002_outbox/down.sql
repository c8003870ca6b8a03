drop index if exists penstock.vault_outbox_pending, penstock.vault_outbox_leased, penstock.vault_outbox_id;
drop function vault.give_back(), vault.put_back(regclass, text[], text), vault.outbox_as_rows(), vault.outbox_columns();
drop function vault.outbox_insert(), vault.outbox_update(), vault.outbox_delete();
drop function vault.take_over(), vault.show_outbox(regclass, boolean), vault.make_outbox_view(name, jsonb, boolean),
    vault.outbox_cast(text, text), vault.outbox_text_type(text), vault.retry_quarantine(), vault.quarantined(bigint, integer),
    vault.move_in(jsonb[], boolean), vault.move_all(text, boolean, vault.outbox_takeover),
    vault.move_ended(regclass, vault.outbox_takeover), vault.undo_changed(regclass, vault.outbox_takeover), vault.fail_items(), vault.register_enrichment(), vault.read_outbox(jsonb[]),
    vault.outbox_moment(text), vault.outbox_id(text), vault.outbox_uuid(text), vault.outbox_word(text),
    vault.reclaim_for_outbox(penstock.jobs), vault.requeue_for_outbox(penstock.jobs, integer, interval, text, text),
    vault.fail_for_outbox(penstock.jobs, integer, text, text), vault.complete_for_outbox(penstock.jobs),
    vault.reschedule_for_outbox(penstock.jobs, interval), vault.renew_for_outbox(penstock.jobs, interval),
    vault.claim_for_outbox(penstock.jobs, text, interval), vault.outbox_lease(penstock.jobs, interval);
drop table vault.outbox_extras, vault.outbox_quarantine, vault.outbox_takeover;
select vault.apply_grants();
