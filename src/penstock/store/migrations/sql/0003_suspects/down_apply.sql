alter function penstock.reap(integer) security definer;
alter function penstock.claim_gated(text, text, interval, integer, uuid) security definer;
alter function penstock.save_runs(jsonb) security definer;
drop function penstock.gate_room(penstock.types, integer, integer, text, timestamptz),
    penstock.pass_gate(penstock.types, integer, timestamptz);
drop index penstock.jobs_suspect;
alter table penstock.jobs drop column suspect, drop column reserved_until;
select penstock.apply_grants();
