-- Rows become jobs.

-- One set of rows, the newest first. Each is moved or goes into the quarantine; without p_quarantine what cannot be moved is
-- left for later. The newest row of an item gets the key of
-- the item's round, so that nobody enqueues the same again; older ones are history and get none. A claim that has run
-- out is given back by a move of its own, which the audit shows; no attempt is used (D-49). Planned anew for each set: what
-- is best for the first one, when there is no job yet, would be worst for the last.
create function vault.move_in(
    p_rows jsonb[], p_quarantine boolean, out moved jsonb, out given_back integer, out quarantined integer)
    language plpgsql volatile set plan_cache_mode = force_custom_plan set jit = off set work_mem = '64MB'
as $$
declare
    at timestamptz := penstock.now();
    stale uuid[];
begin
    with read as materialized (
        select r.*, coalesce(r.problem, case when exists (select from penstock.jobs j where j.job_id = r.job_id)
                                               or row_number() over (partition by r.problem is null, r.job_id) > 1
                                             then 'id is there twice: ' || left(r.row ->> 'id', 50) end) as verdict
          from vault.read_outbox(p_rows) as r
    ), judged as materialized (
        select r.*, r.item_id || case when i.enrichment_round > 1 then '#' || i.enrichment_round else '' end as key,
               row_number() over (partition by r.verdict is null, r.item_id order by r.created_at desc, r.job_id) as newest
          from read as r left join vault.items i on i.id = r.item_id
    ), kept as (
        insert into vault.outbox_quarantine ("row", problem)
        select j.row, j.verdict from judged as j where j.verdict is not null and p_quarantine
        returning 1
    ), extra as (
        insert into vault.outbox_extras (job_id, "row")
        select j.job_id, j.row from judged as j
         where j.verdict is null
           and (j.row ->> 'id' <> j.job_id::text or j.row ->> 'item_id' <> j.item_id::text
                or j.row - array['id', 'item_id', 'job_type', 'status', 'attempt_count', 'run_at', 'locked_by', 'locked_at',
                                 'lease_expires_at', 'last_error_code', 'last_error_message', 'created_at', 'claimed_at',
                                 'last_error'] <> '{}')
    ), imported as materialized (
        select penstock.import_jobs('enrichment', coalesce(jsonb_agg(jsonb_build_object(
                   'job_id', j.job_id, 'payload', jsonb_build_object('item_id', j.item_id), 'status', j.status,
                   'key', case when j.newest = 1
                                and not exists (select from penstock.jobs o where o.idempotency_key = 'enrichment:' || j.key)
                                and not exists (select from penstock.kept_keys k
                                                 where k.idempotency_key = 'enrichment:' || j.key and k.job_id <> j.job_id)
                               then j.key end,
                   'attempt_count', j.attempts, 'created_at', j.created_at, 'run_at', j.run_at, 'claimed_at', j.claimed_at,
                   'claimed_by', j.claimed_by, 'lease_expires_at', j.lease, 'code', j.code, 'message', j.message,
                   'reason', case when j.attempts >= 3 then 'budget_exhausted' else 'non_retryable' end)), '[]'))
          from judged as j where j.verdict is null
    )
    select jsonb_build_object('queued', count(*) filter (where j.status = 'queued'),
                              'processing', count(*) filter (where j.status = 'processing'),
                              'completed', count(*) filter (where j.status = 'completed'),
                              'failed', count(*) filter (where j.status = 'failed')),
           coalesce(array_agg(j.job_id) filter (where j.status = 'processing' and j.lease <= at), '{}'),
           (select count(*) from kept)
      into moved, stale, quarantined
      from imported left join judged as j on j.verdict is null;

    update penstock.jobs j
       set status = 'queued', ready = true, run_at = least(j.run_at, at), updated_at = at, claimed_by = null, claimed_at = null,
           lease_expires_at = null
     where j.job_id = any(stale);
    given_back := cardinality(stale);
    moved := moved || jsonb_build_object('queued', (moved ->> 'queued')::integer + given_back,
                                         'processing', (moved ->> 'processing')::integer - given_back);
end
$$;

-- An item whose enrichment had failed for good says so (C-62). One that somebody has locked is being changed by that
-- somebody: to wait here for a poller that waits for the outbox would be a deadlock.
create function vault.fail_items() returns void
    language sql volatile
as $$
    update vault.items i
       set status = 'ENRICHMENT_FAILED', failure_code = dead.code
      from (select o.id, j.last_error_code as code
              from penstock.jobs j
              join vault.items o on o.id = vault.item_of(j.payload)
             where j.job_type = 'enrichment' and j.status = 'failed' and j.idempotency_key is not null
               and o.status = 'ENRICHING' and o.enrichment_round = vault.round_of(j.idempotency_key)
               for update of o skip locked) as dead
     where i.id = dead.id and i.status = 'ENRICHING'
$$;

-- The rows that a query finds, the newest first, set by set; what became of them is added to the report.
create function vault.move_all(p_query text, p_quarantine boolean, p_total inout vault.outbox_takeover)
    language plpgsql volatile
as $$
declare
    chunk jsonb[];
    part record;
begin
    for chunk in execute format(
        'select array_agg(o.document order by o.place) from (select q.document, row_number() over (order by q.at desc nulls last) '
        '- 1 as place from (%s) as q(document, at)) as o group by o.place / 5000 order by o.place / 5000', p_query)
    loop
        perform vault.register_enrichment();
        part := vault.move_in(chunk, p_quarantine);
        p_total.given_back := p_total.given_back + part.given_back;
        p_total.quarantined := p_total.quarantined + part.quarantined;
        p_total.moved := (select jsonb_object_agg(m.key, m.value::integer + (part.moved ->> m.key)::integer)
                            from jsonb_each_text(p_total.moved) as m);
    end loop;
end
$$;

-- What has ended moves before anybody has to wait: most of an outbox. Only where ids are uuids and unique, and only of items
-- that have no open row, whose job is to hold the key. Where each row stood is written down, to see later whether it is
-- still the same.
create function vault.move_ended(p_source regclass, p_total inout vault.outbox_takeover)
    language plpgsql volatile
as $$
begin
    if not exists (select from pg_attribute a
                     join pg_index x on x.indrelid = a.attrelid and x.indisunique and x.indpred is null
                      and x.indnkeyatts = 1 and x.indkey[0] = a.attnum
                    where a.attrelid = p_source and a.attname = 'id' and a.atttypid = 'uuid'::regtype) then
        return;
    end if;
    execute format('insert into vault.outbox_early (job_id, place, born) select t.id, t.ctid, t.xmin::text from %1$s as t '
                   'where t.id is not null and t.status::text in (''DONE'', ''FAILED'', ''DEAD'') and not exists (select from '
                   '%1$s as o where o.item_id = t.item_id and o.status::text not in (''DONE'', ''FAILED'', ''DEAD'')) '
                   'and not exists (select from penstock.jobs j where j.job_id = t.id)', p_source);
    p_total := vault.move_all(format('select to_jsonb(t), t.created_at from %s as t join vault.outbox_early e '
        'on e.job_id = t.id and e.place = t.ctid and e.born = t.xmin::text', p_source), false, p_total);
    delete from vault.outbox_early e where not exists (select from penstock.jobs j where j.job_id = e.job_id);
end
$$;

-- What moved early and has changed since, or is gone, was not moved after all.
create function vault.undo_changed(p_source regclass, p_total inout vault.outbox_takeover)
    language plpgsql volatile
as $$
declare
    changed uuid[];
begin
    if not exists (select from vault.outbox_early) then
        return;
    end if;
    execute format('select coalesce(array_agg(e.job_id), ''{}'') from vault.outbox_early e where not exists (select from %s as t '
                   'where t.id = e.job_id and t.ctid = e.place and t.xmin::text = e.born)', p_source) into changed;
    if changed <> '{}' then
        p_total.moved := p_total.moved || (
            select jsonb_object_agg(s.status, (p_total.moved ->> s.status)::integer - s.number)
              from (select j.status, count(*)::integer as number from penstock.jobs j
                     where j.job_id = any(changed) group by j.status) as s);
        delete from vault.outbox_extras x where x.job_id = any(changed);
        delete from vault.outbox_early e where e.job_id = any(changed);
        perform penstock.remove_jobs('enrichment', changed);
    end if;
end
$$;

-- The whole outbox; from the lock on everybody else waits. What is left of it is an empty table of another name.
create function vault.take_over() returns void
    language plpgsql volatile
as $$
declare
    source regclass := vault.find_outbox();
    missing text[];
    began timestamptz;
    total vault.outbox_takeover;
begin
    missing := array(select name from unnest(array['id', 'item_id', 'status', 'attempt_count', 'created_at']) as name
                      where not exists (select from pg_attribute a where a.attrelid = source and a.attname = name
                                                                     and not a.attisdropped));
    if missing <> '{}' then
        raise exception using errcode = '42703',
            message = format('%s lacks %s, so it is not the outbox that can be taken over', source, array_to_string(missing, ', ')),
            hint = 'Rename that table, or give it the columns.';
    end if;
    total := row(true, (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = source),
                 penstock.now(), 0, 0, '{"queued": 0, "processing": 0, "completed": 0, "failed": 0}', 0, 0);
    total := vault.move_ended(source, total);

    execute format('lock table %s in access exclusive mode', source);
    began := clock_timestamp();
    total := vault.undo_changed(source, total);
    if exists (select from vault.outbox_early) then
        total := vault.move_all(format('select to_jsonb(t), t.created_at from %s as t '
            'where not exists (select from vault.outbox_early e where e.job_id = t.id)', source), true, total);
    else
        total := vault.move_all(format('select to_jsonb(t), t.created_at from %s as t', source), true, total);
    end if;
    total.found := total.quarantined + (select sum(m.value::bigint) from jsonb_each_text(total.moved) as m);
    if total.found > 0 then
        perform vault.fail_items();
        perform penstock.poke('litevault_jobs', 'enrichment');
    end if;
    perform vault.show_outbox(source, total.found > 0);
    execute format('truncate table %s', source);
    drop table vault.outbox_early;
    total.seconds := extract(epoch from clock_timestamp() - began);
    insert into vault.outbox_takeover select total.*;
end
$$;

-- Quarantined rows whose problem is gone, because the item is there now or the owner has mended the row, move after all.
create function vault.retry_quarantine(out moved integer, out quarantined integer)
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    rows jsonb[];
    part record;
begin
    with taken as (delete from vault.outbox_quarantine returning quarantine_id, "row")
    select array_agg(t."row" order by t.quarantine_id) into rows from taken as t;
    moved := 0;
    quarantined := 0;
    if rows is not null then
        perform vault.register_enrichment();
        part := vault.move_in(rows, true);
        quarantined := part.quarantined;
        moved := cardinality(rows) - quarantined;
        perform penstock.poke('litevault_jobs', 'enrichment');
    end if;
end
$$;

-- The quarantine as operators see it: ids, words and problems; never what an error said.
create function vault.quarantined(p_after bigint, p_limit integer)
    returns table (quarantine_id bigint, id text, item_id text, status text, created_at text, problem text, at timestamptz)
    language sql stable security definer set search_path = pg_catalog
as $$
    select q.quarantine_id, left(q.row ->> 'id', 100), left(q.row ->> 'item_id', 100), left(q.row ->> 'status', 100),
           left(q.row ->> 'created_at', 100), q.problem, q.at
      from vault.outbox_quarantine q where q.quarantine_id > p_after order by q.quarantine_id limit p_limit
$$;
