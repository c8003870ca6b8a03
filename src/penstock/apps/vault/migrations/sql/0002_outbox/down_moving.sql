-- Back to the outbox of before. The views go first, so that nobody comes through them any more, and then nobody may write or
-- lock a job until this is done. In this order: who has come through a view holds its lock on jobs already. And in this
-- mode: one who has locked a job and then wants to end it must come before us, or each would wait for the other.
create function vault.give_back() returns void
    language plpgsql volatile
as $$
declare
    home name := (select t.source_schema from vault.outbox_takeover t);
    target regclass := format('%I.enrichment_outbox_legacy', home)::regclass;
    every text[];
    known text[];
begin
    execute format('drop view %I.enrichment_outbox', home);
    if home <> 'vault' then
        drop view vault.enrichment_outbox;
    end if;
    lock table penstock.jobs in exclusive mode;
    execute format('alter table %s rename to enrichment_outbox', target);
    select array_agg(a.attname), array_agg(a.attname) filter (where a.attname = any(vault.outbox_columns())
               and (a.attname <> 'id' or a.atttypid = 'uuid'::regtype
                    or vault.outbox_text_type(format_type(a.atttypid, a.atttypmod)) is not null))
      into every, known
      from pg_attribute a where a.attrelid = target and a.attnum > 0 and not a.attisdropped and a.attgenerated = '';

    -- Rows that came from the table have all their columns again; rows that came after take its defaults for the rest.
    perform vault.put_back(target, every,
        'select x."row" || (o."row" - ''id'' - ''item_id'') from vault.outbox_as_rows() as o '
        'join vault.outbox_extras x on x.job_id = o.job_id');
    perform vault.put_back(target, known, format(
        'select o."row" - %L::text[] from vault.outbox_as_rows() as o '
        'where not exists (select from vault.outbox_extras x where x.job_id = o.job_id)',
        array(select name from unnest(vault.outbox_columns()) as name where name <> all(known))));
    perform vault.put_back(target, every, 'select q."row" from vault.outbox_quarantine q');
    perform penstock.remove_jobs('enrichment', null);
end
$$;

-- Rows given as documents go into a table, with these columns.
create function vault.put_back(p_target regclass, p_columns text[], p_rows text) returns void
    language plpgsql volatile
as $$
begin
    execute format(
        'insert into %1$s (%2$s) overriding system value select %3$s from (%4$s) as o(document) '
        'cross join lateral jsonb_populate_record(null::%1$s, o.document) as r', p_target,
        (select string_agg(quote_ident(c), ', ') from unnest(p_columns) as c),
        (select string_agg('r.' || quote_ident(c), ', ') from unnest(p_columns) as c), p_rows);
end
$$;

create function vault.outbox_columns() returns text[]
    language sql immutable
as $$
    select array['id', 'item_id', 'job_type', 'status', 'attempt_count', 'run_at', 'locked_by', 'locked_at', 'lease_expires_at',
                 'last_error_code', 'last_error_message', 'created_at', 'claimed_at', 'last_error']
$$;

-- Every job in the words of 004. A claim does not survive the way back: its worker finds that it has lost the job.
create function vault.outbox_as_rows() returns table (job_id uuid, "row" jsonb)
    language sql stable
as $$
    select j.job_id, jsonb_build_object(
               'id', j.job_id, 'item_id', vault.item_of(j.payload), 'job_type', j.job_type, 'attempt_count', j.attempt_count,
               'status', case when j.status in ('processing', 'batch_submitted') then 'PENDING' else vault.outbox_word(j.status) end,
               'run_at', j.run_at, 'locked_by', null, 'lease_expires_at', null, 'created_at', j.created_at,
               'locked_at', held.at, 'claimed_at', held.at, 'last_error_code', nullif(j.last_error_code, 'LEGACY_FAILURE'),
               'last_error_message', j.last_error_message, 'last_error', j.last_error_message)
      from penstock.jobs j
     cross join lateral (select case when j.status not in ('processing', 'batch_submitted') then j.claimed_at end as at) as held
     where j.job_type = 'enrichment'
$$;
select vault.give_back();
