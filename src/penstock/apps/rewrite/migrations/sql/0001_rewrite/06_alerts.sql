-- The orchestrator has no right to the engine's alerts. Through this it can say one thing: a request of the home that it
-- works for has failed before it had a job, and which code was met (A-38). One unseen alert for each code is enough.
create function rewrite.report_unavailable(p_rewrite_request_id uuid, p_code text) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
begin
    insert into penstock.alerts (kind, severity, subject)
    select 'rewrite_unavailable', 'alert', jsonb_build_object('code', p_code, 'rewrite_request_id', r.rewrite_request_id)
      from rewrite.rewrite_requests r
     where r.rewrite_request_id = p_rewrite_request_id and r.home_id = rewrite.current_home() and r.status = 'failed'
       and p_code ~ '^[A-Za-z0-9_]{1,50}$'
       and not exists (select from penstock.alerts a
                        where a.kind = 'rewrite_unavailable' and a.acknowledged_at is null
                          and a.subject ->> 'code' = p_code);
    return found;
end
$$;
