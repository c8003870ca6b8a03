-- Provider batches (C-35, C-36). A batch's id is also its submission token: committed with its items before the
-- provider hears of it, so that a crash in between leaves a question that can be asked and never a guess.
create table penstock.batches (
    batch_id            uuid primary key,
    state               text not null default 'building' check (state in
        ('building', 'uncertain', 'submitted', 'collected', 'abandoned')),
    job_type            varchar(50) not null,
    stage               varchar(50) not null,
    adapter             varchar(50) not null,
    base_url            text not null default '',
    provider            text not null,
    model               text not null,
    prompt_version      text not null,
    policy_version      text not null,
    execution_mode      text not null,
    lane                text not null,
    source_locale       text not null,
    target_locale       text not null,
    item_count          integer not null check (item_count > 0),
    body_bytes          bigint not null check (body_bytes > 0),
    body_sha256         text not null,
    provider_batch_id   text,
    provider_status     varchar(50),
    input_file_id       text,
    output_file_id      text,
    error_file_id       text,
    run_id              uuid,
    created_at          timestamptz not null,
    submitted_at        timestamptz,
    deadline_at         timestamptz,          -- the provider's own expiry and our margin (C-05)
    polled_at           timestamptz,
    next_poll_at        timestamptz,
    poll_failures       integer not null default 0,
    missing_since       timestamptz,          -- the provider has answered not-found since then
    cancel_asked_at     timestamptz,          -- an operator does not want it any more
    cancel_sent_at      timestamptz,          -- the provider was told, for that or for its deadline
    collected_at        timestamptz,
    files_deleted_at    timestamptz,
    files_due_at        timestamptz,          -- they could not be deleted and are tried again then
    erase_asked_at      timestamptz,          -- its files go whatever the setting says: a home was erased
    last_error_code     varchar(50),
    collector           varchar(100),         -- the run that collects it …
    collector_until     timestamptz,          -- … until then
    check ((state in ('submitted', 'collected')) <= (provider_batch_id is not null and submitted_at is not null)),
    check ((state = 'collected') = (collected_at is not null))
);
create unique index batches_provider on penstock.batches (provider, base_url, provider_batch_id)
    where provider_batch_id is not null;
create index batches_open on penstock.batches (job_type, next_poll_at) where state = 'submitted';
create index batches_unsettled on penstock.batches (created_at) where state in ('building', 'uncertain');
create index batches_watched on penstock.batches (next_poll_at) where state = 'abandoned' and next_poll_at is not null;
create index batches_files on penstock.batches (job_type, created_at)
    where state in ('collected', 'abandoned') and files_deleted_at is null;
create index batches_created on penstock.batches (created_at);

-- Which job each item of a batch stands for, under which claim (A-53, A-54). What became of it is the item's own.
create table penstock.batch_items (
    batch_id         uuid not null,
    batch_item_index integer not null check (batch_item_index >= 0),
    job_id           uuid not null,
    claim_seq        bigint not null,
    attempt          integer not null,
    custom_id        varchar(64) not null,
    state            text not null default 'open' check (state in
        ('open', 'completed', 'advanced', 'retried', 'requeued', 'failed', 'late')),
    code             varchar(50),
    provider_at      timestamptz,             -- the item's own time at the provider (A-98)
    settled_at       timestamptz,
    input_tokens     bigint not null default 0,
    output_tokens    bigint not null default 0,
    cost_micros      bigint not null default 0,
    primary key (batch_id, batch_item_index),
    check ((state = 'open') = (settled_at is null))
);
create unique index batch_items_custom_id on penstock.batch_items (custom_id);
create index batch_items_job on penstock.batch_items (job_id);
create index batch_items_open on penstock.batch_items (batch_id) where state = 'open';

-- What was spent, per day and by whom (C-64). Millionths of the currency of the price table.
create table penstock.spend (
    day           date not null,
    job_type      varchar(50) not null,
    provider      text not null,
    model         text not null,
    source_locale text not null default '',
    target_locale text not null default '',
    execution     text not null check (execution in ('batch', 'async')),
    calls         bigint not null default 0,
    input_tokens  bigint not null default 0,
    output_tokens bigint not null default 0,
    cost_micros   bigint not null default 0,
    primary key (day, job_type, provider, model, source_locale, target_locale, execution)
);

-- One batch with the counts of its items: the operators' view.
create view penstock.batch_overview with (security_invoker = true) as
    select b.*, c.open_items, c.completed_items, c.retried_items, c.failed_items, c.late_items, c.cost_micros
      from penstock.batches b
     cross join lateral (
           select count(*) filter (where i.state = 'open') as open_items,
                  count(*) filter (where i.state in ('completed', 'advanced')) as completed_items,
                  count(*) filter (where i.state in ('retried', 'requeued')) as retried_items,
                  count(*) filter (where i.state = 'failed') as failed_items,
                  count(*) filter (where i.state = 'late') as late_items,
                  coalesce(sum(i.cost_micros), 0)::bigint as cost_micros
             from penstock.batch_items i where i.batch_id = b.batch_id) as c;

-- Money spent on calls or items; the type is paused, with an alert, by the call that passes its daily cap.
create function penstock.add_spend(
    p_type text, p_provider text, p_model text, p_source text, p_target text, p_execution text,
    p_input bigint, p_output bigint, p_cost bigint, p_cap bigint, p_calls bigint default 1) returns boolean
    language plpgsql volatile
as $$
declare
    today date := (penstock.now() at time zone 'UTC')::date;
    total bigint;
begin
    insert into penstock.spend as s (day, job_type, provider, model, source_locale, target_locale, execution, calls,
                                     input_tokens, output_tokens, cost_micros)
    values (today, p_type, p_provider, p_model, p_source, p_target, p_execution, p_calls, p_input, p_output, p_cost)
    on conflict (day, job_type, provider, model, source_locale, target_locale, execution) do update
       set calls = s.calls + excluded.calls, input_tokens = s.input_tokens + excluded.input_tokens,
           output_tokens = s.output_tokens + excluded.output_tokens, cost_micros = s.cost_micros + excluded.cost_micros;
    if p_cap is null then
        return false;
    end if;
    select sum(s.cost_micros) into total from penstock.spend s where s.day = today and s.job_type = p_type;
    if total < p_cap then
        return false;
    end if;
    update penstock.types t
       set paused_at = penstock.now(), paused_by = 'penstock', pause_reason = 'SPEND_CAP'
     where t.job_type = p_type and t.paused_at is null;
    if found then
        insert into penstock.alerts (kind, severity, subject)
        values ('spend_cap_reached', 'alert', jsonb_build_object('job_type', p_type, 'day', today));
        perform pg_notify('penstock_control', '{"gates": true}');
    end if;
    return found;
end
$$;

-- The ends of items, each with its own time and its own cost (A-98), and what they cost together. An item that has
-- ended before is left as it is and not paid for twice: the same results may be read any number of times (A-95).
create function penstock.settle_items(
    p_batch uuid, p_cap bigint, p_index integer[], p_state text[], p_code text[], p_at timestamptz[], p_input bigint[],
    p_output bigint[], p_cost bigint[]) returns table (batch_item_index integer, state text, paused boolean)
    language plpgsql volatile
as $$
#variable_conflict use_column
declare
    batch penstock.batches;
    indexes integer[];
    states text[];
    calls bigint;
    input bigint;
    output bigint;
    cost bigint;
    has_paused boolean := false;
begin
    with ended as (
        select * from unnest(p_index, p_state, p_code, p_at, p_input, p_output, p_cost)
            as e(index, state, code, at, input, output, cost)
    ), settled as (
        update penstock.batch_items as item
           set state = ended.state, code = ended.code, provider_at = ended.at, settled_at = penstock.now(),
               input_tokens = ended.input, output_tokens = ended.output, cost_micros = ended.cost
          from ended
         where item.batch_id = p_batch and item.batch_item_index = ended.index and item.state = 'open'
        returning item.batch_item_index, item.state, item.input_tokens, item.output_tokens, item.cost_micros
    )
    select array_agg(s.batch_item_index), array_agg(s.state),
           count(*) filter (where s.input_tokens + s.output_tokens > 0), sum(s.input_tokens), sum(s.output_tokens),
           sum(s.cost_micros)
      into indexes, states, calls, input, output, cost
      from settled s;
    if calls > 0 then
        select * into batch from penstock.batches b where b.batch_id = p_batch;
        has_paused := penstock.add_spend(batch.job_type, batch.provider, batch.model, batch.source_locale,
            batch.target_locale, batch.execution_mode, input, output, cost, p_cap, calls);
    end if;
    return query select s.index, s.state, has_paused from unnest(indexes, states) as s(index, state);
end
$$;
