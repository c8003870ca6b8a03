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

    -- Saves, shows, confirms and discards, for one owner at a time. What was found is not its to write.
    if 'penstock_orchestrator' = any(found_roles) then
        grant select, insert (id, owner_id, kind, content), update (status, failure_code, enrichment_round)
            on vault.items to penstock_orchestrator;
    end if;

    -- Enriches whatever it is given: sees the text of all items, and of their owners nothing.
    if 'penstock_worker' = any(found_roles) then
        grant select (id, kind, content, status, enrichment_round), update (status, title, enrichment)
            on vault.items to penstock_worker;
        if not exists (select from pg_policies p
                        where p.schemaname = 'vault' and p.tablename = 'items' and p.policyname = 'items_of_the_worker') then
            create policy items_of_the_worker on vault.items to penstock_worker using (true);
        end if;
    end if;
    perform vault.apply_outbox_grants(found_roles);
    return found_roles;
end
$$;
