-- The path that these functions had before.
do $$
declare
    definer oid;
begin
    for definer in select p.oid from pg_proc p where p.pronamespace = 'review'::regnamespace and p.prosecdef loop
        execute format('alter function %s set search_path = pg_catalog', definer::regprocedure);
    end loop;
end
$$;
