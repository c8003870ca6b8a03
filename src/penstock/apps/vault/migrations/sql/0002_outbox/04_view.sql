-- The outbox as 004 knows it, over the engine's jobs (C-18, C-19). It reads one table, so that FOR UPDATE SKIP LOCKED locks
-- the job. Its readers need no right on jobs: it runs with the rights of its owner and shows one type. It is no security
-- barrier, because a barrier would lock every row that is looked at, and not the one that LIMIT lets through.

-- Makes the view in one schema. p_types names the types that columns had in the table whose place it takes: what was
-- prepared against the table goes on with the same types. p_indexed: pollers are expected, so their two questions get
-- indexes; they are the view's own expressions, or the planner would not know them.
create function vault.make_outbox_view(p_schema name, p_types jsonb, p_indexed boolean) returns void
    language plpgsql volatile
as $make$
declare
    word text := vault.outbox_cast($$case j.status when 'queued' then 'PENDING' when 'processing' then 'IN_PROGRESS' $$
        || $$when 'batch_submitted' then 'IN_PROGRESS' when 'completed' then 'DONE' else 'FAILED' end$$,
        coalesce(p_types ->> 'status', 'character varying(20)'));
    id text := vault.outbox_cast('j.job_id', vault.outbox_text_type(p_types ->> 'id'));
    item text := vault.outbox_cast(
        $$case when j.payload ->> 'item_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' $$
        || $$then (j.payload ->> 'item_id')::uuid end$$, vault.outbox_text_type(p_types ->> 'item_id'));
    bare text;
begin
    execute format(
        'create view %I.enrichment_outbox as select %s as id, %s as item_id, j.job_type, '
        '%s as status, j.attempt_count, j.run_at, j.claimed_by as locked_by, %s as locked_at, j.lease_expires_at, '
        'j.last_error_code, j.last_error_message, %s as created_at, %s as claimed_at, j.last_error_message as last_error '
        'from penstock.jobs j where j.job_type = ''enrichment''',
        p_schema, id, item, word, vault.outbox_cast('j.claimed_at', p_types ->> 'locked_at'),
        vault.outbox_cast('j.created_at', p_types ->> 'created_at'),
        vault.outbox_cast('j.claimed_at', p_types ->> 'claimed_at'));
    execute format(
        'alter view %1$I.enrichment_outbox alter column job_type set default ''enrichment'', alter column status set default '
        '''PENDING'', alter column attempt_count set default 0, alter column run_at set default now(), '
        'alter column created_at set default now()', p_schema);
    execute format(
        'create trigger outbox_insert instead of insert on %1$I.enrichment_outbox for each row execute function vault.outbox_insert()',
        p_schema);
    execute format(
        'create trigger outbox_update instead of update on %1$I.enrichment_outbox for each row execute function vault.outbox_update()',
        p_schema);
    execute format(
        'create trigger outbox_delete instead of delete on %1$I.enrichment_outbox for each row execute function vault.outbox_delete()',
        p_schema);
    if p_indexed then
        bare := replace(word, 'j.', '');
        if coalesce(p_types ->> 'status', 'text') ~ '^(text|character)' then -- the words of an enum cannot be in an index
            execute format('create index vault_outbox_pending on penstock.jobs (created_at) where job_type = ''enrichment'' '
                           'and (%s) = ''PENDING''', bare);
            execute format('create index vault_outbox_leased on penstock.jobs (lease_expires_at) where job_type = ''enrichment'' '
                           'and (%s) = ''IN_PROGRESS''', bare);
        end if;
        if id <> 'j.job_id' then
            execute format('create index vault_outbox_id on penstock.jobs ((%s)) where job_type = ''enrichment''',
                           replace(id, 'j.', ''));
        end if;
    end if;
end
$make$;

-- An expression in another type; as it is when none is named.
create function vault.outbox_cast(p_expression text, p_type text) returns text
    language sql immutable
as $$
    select case when p_type is null then p_expression else format('(%s)::%s', p_expression, p_type) end
$$;

-- The type of an id that was text: wide enough for a uuid, or it is shown as the uuid that it is.
create function vault.outbox_text_type(p_type text) returns text
    language sql immutable
as $$
    select case when p_type in ('text', 'character varying') then p_type
                when p_type ~ '^character( varying)?\(\d+\)$' and substring(p_type from '\d+')::integer >= 36 then p_type end
$$;

-- The table makes room, and views stand where it stood and in the schema vault. Who had rights on it has them on the view.
create function vault.show_outbox(p_source regclass, p_loaded boolean) returns void
    language plpgsql volatile
as $$
declare
    home name := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = p_source);
    made_here boolean := coalesce(obj_description(p_source, 'pg_class') = 'made by version 0001 of the line vault', false);
    types jsonb := (select jsonb_object_agg(a.attname, format_type(a.atttypid, a.atttypmod))
                      from pg_attribute a where a.attrelid = p_source and a.attnum > 0 and not a.attisdropped
                       and a.attname in ('id', 'item_id', 'status', 'created_at', 'claimed_at', 'locked_at'));
    held record;
begin
    execute format('alter table %s rename to enrichment_outbox_legacy', p_source);
    perform vault.make_outbox_view(home, types, p_loaded or not made_here);
    if home <> 'vault' then
        perform vault.make_outbox_view('vault', '{}', false);
    end if;
    for held in
        select case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as grantee, a.privilege_type
          from pg_class c cross join aclexplode(c.relacl) as a
         where c.oid = p_source and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    loop
        execute format('grant %s on %I.enrichment_outbox to %s', held.privilege_type, home, held.grantee);
    end loop;
    for held in
        select case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as grantee, a.privilege_type,
               t.attname
          from pg_attribute t cross join aclexplode(t.attacl) as a
         where t.attrelid = p_source and not t.attisdropped and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE')
           and exists (select from pg_attribute v
                        where v.attrelid = format('%I.enrichment_outbox', home)::regclass and v.attname = t.attname)
    loop
        execute format('grant %s (%I) on %I.enrichment_outbox to %s', held.privilege_type, held.attname, home, held.grantee);
    end loop;
end
$$;
