-- Taken first, and as strong as 0003 needs it: those who claim, end and enqueue jobs wait here, and hold no lock that the
-- migration still waits for.
lock table penstock.jobs in access exclusive mode;

-- Functions that run as the owner. PostgreSQL looks for the names of types in pg_temp first unless the path names it, so
-- a path of pg_catalog alone lets a caller's temporary domain called `timestamptz` run the caller's code as the owner.
-- Everything of the engine that a role may call and that writes more than the role may write runs as the owner, too: then
-- the tables behind it need no grant.
create function penstock.pin_paths(p_schema name) returns void
    language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    definer oid;
begin
    for definer in
        select p.oid from pg_proc p
         where p.pronamespace = to_regnamespace(quote_ident(p_schema)) and p.prosecdef
    loop
        execute format('alter function %s set search_path = pg_catalog, pg_temp', definer::regprocedure);
    end loop;
end
$$;

alter function penstock.reap(integer) security definer;
alter function penstock.claim_gated(text, text, interval, integer, uuid) security definer;
alter function penstock.trip_breaker(text, text) security definer;
alter function penstock.open_breaker(text, text, interval) security definer;
alter function penstock.mend_breaker(text) security definer;
alter function penstock.close_breaker(text) security definer;
alter function penstock.note_refusal(text, text) security definer;
alter function penstock.save_runs(jsonb) security definer;
alter function penstock.settle_items(uuid, bigint, integer[], text[], text[], timestamptz[], bigint[], bigint[], bigint[]) security definer;
