-- What each role may do, with suspects; the rest is as the version before has it.
alter function penstock.apply_grants() rename to apply_grants_0002;
create function penstock.apply_grants() returns text[]
    language plpgsql volatile
as $$
declare
    found_roles text[] := penstock.apply_grants_0002();
begin
    if 'penstock_worker' = any(found_roles) then
        grant update (suspect, reserved_until) on penstock.jobs to penstock_worker;
        grant execute on function penstock.gate_room(penstock.types, integer, integer, text, timestamptz),
            penstock.claim_suspect(uuid, text, timestamptz, text, interval, uuid) to penstock_worker;
    end if;
    if 'penstock_operator' = any(found_roles) then
        grant select (suspect, reserved_until) on penstock.jobs to penstock_operator;
    end if;
    if 'penstock_viewer' = any(found_roles) then
        grant select (suspect, reserved_until) on penstock.jobs to penstock_viewer;
    end if;
    return found_roles;
end
$$;
