-- Rows become jobs.

-- One set of rows, the newest first. Each is moved or goes into the quarantine. The newest row of an item gets the key of
-- the item's round, so that nobody enqueues the same again; older ones are history and get none. A claim that has run
-- out is given back by a move of its own, which the audit shows; no attempt is used (D-49). Planned anew for each set: what
-- is best for the first one, when there is no job yet, would be worst for the last.
create function vault.move_in(p_rows jsonb[], out moved jsonb, out given_back integer, out quarantined integer)
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
        select j.row, j.verdict from judged as j where j.verdict is not null
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

-- The whole outbox, under a lock that makes everybody else wait. What is left of it is an empty table of another name.
create function vault.take_over() returns void
    language plpgsql volatile
as $$
declare
    source regclass := vault.find_outbox();
    missing text[];
    began timestamptz;
    chunk jsonb[];
    part record;
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
    execute format('lock table %s in access exclusive mode', source);
    began := clock_timestamp();
    total := row(true, (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = source),
                 penstock.now(), 0, 0, '{"queued": 0, "processing": 0, "completed": 0, "failed": 0}', 0, 0);
    for chunk in execute format(
        'select array_agg(o."row" order by o.place) from (select to_jsonb(t) as "row", row_number() over (order by t.created_at '
        'desc nulls last) - 1 as place from %s as t) as o group by o.place / 5000 order by o.place / 5000', source)
    loop
        perform vault.register_enrichment();
        part := vault.move_in(chunk);
        total.found := total.found + cardinality(chunk);
        total.given_back := total.given_back + part.given_back;
        total.quarantined := total.quarantined + part.quarantined;
        total.moved := (select jsonb_object_agg(m.key, m.value::integer + (part.moved ->> m.key)::integer)
                          from jsonb_each_text(total.moved) as m);
    end loop;
    if total.found > 0 then
        perform vault.fail_items();
        perform penstock.poke('litevault_jobs', 'enrichment');
    end if;
    perform vault.show_outbox(source, total.found > 0);
    execute format('truncate table %s', source);
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
        part := vault.move_in(rows);
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
