-- What each role may do with this application, as penstock.apply_grants() says it for the engine: what is not given here
-- is taken away, and it can be run again at any time.
create function review.apply_grants() returns text[]
    language plpgsql volatile
as $$
declare
    found_roles text[] := penstock.clear_grants('review');
begin
    -- Asks for reviews and reads what came of them. Of a changelist itself it reads nothing.
    if 'penstock_orchestrator' = any(found_roles) then
        grant select, insert on review.reviews, review.creation_keys, review.recipients to penstock_orchestrator;
        grant select (review_id, revision, parts, fetched_at) on review.artifacts to penstock_orchestrator;
        grant select on review.parts to penstock_orchestrator;
        grant select (delivery_id, review_id, changelist_id, recipient, review_version, channel, required, promise, status,
                      send_count, notification_id, notified_at, provider_confirmed_at, reconciled_at, last_error_code,
                      waived_by, created_at) on review.deliveries to penstock_orchestrator;
        grant execute on function review.standing(uuid) to penstock_orchestrator;
    end if;

    -- Executes: fetches, asks, tells.
    if 'penstock_worker' = any(found_roles) then
        grant select on review.reviews, review.recipients to penstock_worker;
        grant select, insert on review.artifacts, review.parts, review.questions, review.deliveries,
            review.delivery_attempts to penstock_worker;
        grant update (promise, payload, status, send_count, first_send_at, send_started_at, intent_id, notification_id,
                      notified_at, provider_confirmed_at, reconciled_at, last_error_code, opened_by_job_id)
            on review.deliveries to penstock_worker;
        grant update (outcome) on review.delivery_attempts to penstock_worker;
        grant execute on function review.note_lookup(uuid, text), review.suspect_delivery(uuid), review.redeliver(integer),
            review.settle_delivery(uuid, boolean, text, text, boolean) to penstock_worker;
    end if;

    -- Sees who was told and how that went; of code and findings nothing.
    if 'penstock_operator' = any(found_roles) then
        grant select on review.reviews to penstock_operator;
        grant select (delivery_id, review_id, changelist_id, recipient, review_version, channel, address, required, promise,
                      token, status, send_count, first_send_at, send_started_at, notification_id, notified_at,
                      provider_confirmed_at, reconciled_at, looked_up_at, last_error_code, waived_by, opened_by_job_id,
                      cleared_count, created_at) on review.deliveries to penstock_operator;
        grant select on review.delivery_attempts to penstock_operator;
        grant execute on function review.note_lookup(uuid, text), review.suspect_delivery(uuid), review.redeliver(integer),
            review.settle_delivery(uuid, boolean, text, text, boolean), review.waive_delivery(uuid, text)
            to penstock_operator;
        grant execute on function review.standing(uuid) to penstock_operator;
    end if;
    return found_roles;
end
$$;
