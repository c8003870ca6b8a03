-- Back to the outbox of before. The views go first, so that nobody comes through them any more, and then nobody may write a
-- job until this is done: whoever locked the two the other way round would wait for us while we wait for it.
create function vault.give_back() returns void
    language plpgsql volatile
as $$
declare
    home name := (select t.source_schema from vault.outbox_takeover t);
    target regclass := format('%I.enrichment_outbox_legacy', home)::regclass;
    all_columns text;
    known_columns text;
begin
    execute format('drop view %I.enrichment_outbox', home);
    if home <> 'vault' then
        drop view vault.enrichment_outbox;
    end if;
    lock table penstock.jobs in share row exclusive mode;
    execute format('alter table %s rename to enrichment_outbox', target);
    select string_agg(quote_ident(a.attname), ', '),
           string_agg(quote_ident(a.attname), ', ') filter (where a.attname = any(vault.outbox_columns())
               and (a.attname <> 'id' or a.atttypid = 'uuid'::regtype or vault.outbox_text_type(format_type(a.atttypid, a.atttypmod)) is not null))
      into all_columns, known_columns
      from pg_attribute a where a.attrelid = target and a.attnum > 0 and not a.attisdropped and a.attgenerated = '';

    -- Rows that came from the table have all their columns again; rows that came after take its defaults for the rest.
    execute format(
        'insert into %1$s (%2$s) overriding system value select %2$s from vault.outbox_as_rows() as o '
        'join vault.outbox_extras x using (job_id) '
        'cross join lateral jsonb_populate_record(null::%1$s, x."row" || (o."row" - ''id'' - ''item_id''))', target, all_columns);
    execute format(
        'insert into %1$s (%2$s) overriding system value select %2$s from vault.outbox_as_rows() as o '
        'cross join lateral jsonb_populate_record(null::%1$s, o."row") '
        'where not exists (select from vault.outbox_extras x where x.job_id = o.job_id)', target, known_columns);
    execute format(
        'insert into %1$s (%2$s) overriding system value select %2$s from vault.outbox_quarantine q '
        'cross join lateral jsonb_populate_record(null::%1$s, q."row")', target, all_columns);
    perform penstock.remove_jobs('enrichment');
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
