-- What each role may do with this application, as penstock.apply_grants() says it for the engine: what is not given here
-- is taken away, and it can be run again at any time.
create function vault.apply_grants() returns text[]
    language plpgsql volatile
as $$
declare
    found_roles text[] := penstock.clear_grants('vault');
    role text;
begin
    foreach role in array found_roles loop
        execute format('grant execute on function vault.current_owner() to %I', role);
    end loop;
    if 'penstock_orchestrator' = any(found_roles) then
        grant select, insert on vault.items to penstock_orchestrator;
        grant update (status, failure_code, enrichment_round, updated_at) on vault.items to penstock_orchestrator;
    end if;
    return found_roles;
end
$$;
