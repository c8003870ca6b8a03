-- The path that these functions had before, and no right for the role that came with the walls.
do $$
declare
    definer oid;
begin
    for definer in select p.oid from pg_proc p where p.pronamespace = 'vault'::regnamespace and p.prosecdef loop
        execute format('alter function %s set search_path = pg_catalog', definer::regprocedure);
    end loop;
    if to_regrole('penstock_viewer') is not null then
        revoke all on all tables in schema vault from penstock_viewer;
        revoke all on all functions in schema vault from penstock_viewer;
        revoke all on schema vault from penstock_viewer;
    end if;
end
$$;
