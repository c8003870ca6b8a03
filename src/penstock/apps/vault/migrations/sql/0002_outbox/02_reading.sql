-- How a row of the outbox is read, whatever it holds.

-- A uuid in any spelling; null when it is none.
create function vault.outbox_uuid(p_text text) returns uuid
    language plpgsql immutable
as $$
begin
    return p_text::uuid;
exception when invalid_text_representation then
    return null;
end
$$;

-- The id of the job that a row becomes: its own when it is a uuid, else one made of it, always the same (RFC 9562,
-- version 8: the server has no SHA-1 for version 5).
create function vault.outbox_id(p_id text) returns uuid
    language plpgsql immutable
as $$
declare
    given uuid := vault.outbox_uuid(p_id);
    hash bytea;
begin
    if given is null and p_id is not null then
        hash := substring(sha256(convert_to('enrichment_outbox:' || p_id, 'UTF8')) from 1 for 16);
        given := encode(set_byte(set_byte(hash, 6, (get_byte(hash, 6) & 15) | 128), 8, (get_byte(hash, 8) & 63) | 128), 'hex')::uuid;
    end if;
    return given;
end
$$;

-- A moment that a program can hold: null when it is none, or outside of all that an outbox can have seen.
create function vault.outbox_moment(p_text text) returns timestamptz
    language plpgsql stable
as $$
declare
    at timestamptz;
begin
    at := p_text::timestamptz; -- not above: what fails there is not caught here
    return case when at between '1970-01-01 00:00:00+00' and penstock.now() + interval '3660 days' then at end;
exception when data_exception then
    return null;
end
$$;

-- What each row says in the words of the engine, or the problem that it has. IN_PROGRESS is a claim for five minutes from
-- claimed_at on, unless the row names a lease itself. What has ended is history and needs no item; what is open does.
create function vault.read_outbox(p_rows jsonb[])
    returns table ("row" jsonb, job_id uuid, item_id uuid, status text, attempts integer, created_at timestamptz,
                   run_at timestamptz, claimed_at timestamptz, claimed_by text, lease timestamptz, code text, message text,
                   problem text)
    language sql stable
as $$
    select r.row, s.job_id, s.item_id, s.status, s.attempts, s.created_at,
           coalesce(s.run_at, s.created_at),
           case when s.status = 'processing' then coalesce(s.claimed_at, s.created_at) else s.claimed_at end,
           case when s.status = 'processing' then coalesce(r.row ->> 'locked_by', 'legacy') end,
           case when s.status = 'processing'
                then coalesce(s.lease, coalesce(s.claimed_at, s.created_at) + interval '5 minutes') end,
           coalesce(r.row ->> 'last_error_code',
                    case when s.message is not null or s.status = 'failed' then 'LEGACY_FAILURE' end),
           s.message,
           case
               when r.row ->> 'id' is null then 'id is null'
               when r.row ->> 'item_id' is null then 'item_id is null'
               when s.item_id is null then 'item_id is no uuid: ' || left(r.row ->> 'item_id', 50)
               when r.row ->> 'status' is null then 'status is null'
               when s.status is null then
                   'status is none of PENDING, IN_PROGRESS, DONE, FAILED: ' || left(r.row ->> 'status', 50)
               when r.row ->> 'attempt_count' is null then 'attempt_count is null'
               when s.attempts is null then
                   'attempt_count is no number from 0 to 999999: ' || left(r.row ->> 'attempt_count', 50)
               when r.row ->> 'created_at' is null then 'created_at is null'
               when s.created_at is null then 'created_at is no moment since 1970: ' || left(r.row ->> 'created_at', 50)
               when s.claimed_at is null and s.claimed_text is not null then
                   'claimed_at is no moment since 1970: ' || left(s.claimed_text, 50)
               when s.run_at is null and r.row ->> 'run_at' is not null then
                   'run_at is no moment within ten years: ' || left(r.row ->> 'run_at', 50)
               when s.lease is null and r.row ->> 'lease_expires_at' is not null then
                   'lease_expires_at is no moment within ten years: ' || left(r.row ->> 'lease_expires_at', 50)
               when r.row ->> 'job_type' <> 'enrichment' then
                   'job_type is not enrichment: ' || left(r.row ->> 'job_type', 50)
               when length(r.row ->> 'locked_by') > 100 then 'locked_by has more than 100 characters'
               when length(r.row ->> 'last_error_code') > 50 then 'last_error_code has more than 50 characters'
               when s.status in ('queued', 'processing')
                    and not exists (select from vault.items i where i.id = s.item_id) then
                   'there is no item ' || s.item_id || ' in vault.items'
           end
      from unnest(p_rows) as r("row")
     cross join lateral (
           select vault.outbox_id(r.row ->> 'id') as job_id,
                  vault.outbox_uuid(r.row ->> 'item_id') as item_id,
                  case r.row ->> 'status' when 'PENDING' then 'queued' when 'IN_PROGRESS' then 'processing'
                       when 'DONE' then 'completed' when 'FAILED' then 'failed' when 'DEAD' then 'failed' end as status,
                  case when r.row ->> 'attempt_count' ~ '^[0-9]{1,6}$' then (r.row ->> 'attempt_count')::integer end as attempts,
                  vault.outbox_moment(r.row ->> 'created_at') as created_at,
                  vault.outbox_moment(r.row ->> 'run_at') as run_at,
                  coalesce(r.row ->> 'locked_at', r.row ->> 'claimed_at') as claimed_text,
                  vault.outbox_moment(coalesce(r.row ->> 'locked_at', r.row ->> 'claimed_at')) as claimed_at,
                  vault.outbox_moment(r.row ->> 'lease_expires_at') as lease,
                  coalesce(r.row ->> 'last_error_message', r.row ->> 'last_error') as message
           offset 0) as s -- once per row: pulled up, each would be worked out wherever it is named
$$;

-- The type, as a worker announces it (penstock.contract.contract_types): a producer may come before the first worker.
create function vault.register_enrichment() returns void
    language sql volatile
as $$
    insert into penstock.types (job_type, policy, stages, max_attempts, audited, stale_counts_attempt, max_reclaims, channel,
                                keep_finished)
    values ('enrichment',
            '{"attempts": 4, "audit": "full", "backoff": {"delays": [0.0, 30.0, 300.0], "honours_retry_after": true, "kind": "schedule"}, "breaker": {"after": 3, "cooldown": 60.0}, "channel": "litevault_jobs", "daily_spend_cap": null, "dispatch": "notify", "drain_cap": 10, "enqueue_role": null, "error_messages": false, "idempotent": true, "job_type": "enrichment", "keep_finished": 7776000.0, "keep_keys": null, "lease": 300.0, "limits": {"key_rate": null, "key_running": null, "rate": null, "running": null}, "max_payload_bytes": 262144, "max_reclaims": 5, "max_runtime": 240.0, "priority": 0, "replayable": true, "stages": ["enrich"], "stale_counts_attempt": false, "startup_cap": 100, "steps_required": false, "timeout": 3600.0, "unknown_retryable": true}',
            '{enrich}', 4, true, false, 5, 'litevault_jobs', interval '90 days')
    on conflict (job_type) do nothing
$$;
