-- What the functions of 0001 no longer name, and their own ways to run.
drop table penstock.retention, penstock.lock_salt;
drop function penstock.keep_for(text, interval), penstock.note_act(text, text, jsonb, text), penstock.is_operator(),
    penstock.is_owner(), penstock.daily_cap(jsonb);
do $$
declare
    definer oid;
begin
    for definer in select p.oid from pg_proc p where p.pronamespace = 'penstock'::regnamespace and p.prosecdef loop
        execute format('alter function %s set search_path = pg_catalog', definer::regprocedure);
    end loop;
end
$$;
alter function penstock.reap(integer) security invoker reset search_path;
alter function penstock.claim_gated(text, text, interval, integer, uuid) security invoker reset search_path;
alter function penstock.trip_breaker(text, text) security invoker reset search_path;
alter function penstock.open_breaker(text, text, interval) security invoker reset search_path;
alter function penstock.mend_breaker(text) security invoker reset search_path;
alter function penstock.close_breaker(text) security invoker reset search_path;
alter function penstock.note_refusal(text, text) security invoker reset search_path;
alter function penstock.save_runs(jsonb) security invoker reset search_path;
alter function penstock.settle_items(uuid, bigint, integer[], text[], text[], timestamptz[], bigint[], bigint[], bigint[])
    security invoker reset search_path;
drop function penstock.pin_paths(name);
