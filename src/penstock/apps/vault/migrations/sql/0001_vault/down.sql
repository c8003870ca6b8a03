-- The engine's jobs stay; what this application hung on them goes first.
drop trigger vault_begin_job on penstock.jobs;
drop trigger vault_end_job on penstock.jobs;
drop function vault.apply_grants();
drop table vault.items;
drop function vault.end_job(), vault.begin_job(), vault.item_of(jsonb), vault.round_of(text), vault.guard_item(),
    vault.current_owner();

-- An outbox that was there before stays.
do $outbox$
begin
    if obj_description(to_regclass('vault.enrichment_outbox'), 'pg_class') = 'made by version 0001 of the line vault' then
        drop table vault.enrichment_outbox;
    end if;
end
$outbox$;
drop function vault.apply_outbox_grants(text[]), vault.find_outbox();
