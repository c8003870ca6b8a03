-- A request with everything that is frozen for it, in one statement: all of it has one time (A-70).
with snapshot as (
    insert into rewrite.recipient_snapshots (recipient_snapshot_id, home_id) values ($5, $2)
), member as (
    insert into rewrite.recipient_snapshot_members (recipient_snapshot_id, home_id, user_id) values ($5, $2, $4)
), preferences as (
    insert into rewrite.recipient_preference_snapshots
           (recipient_preference_snapshot_id, home_id, user_id, locale_raw, tone, blocked_terms)
    values ($6, $2, $4, $12, $16, $17)
)
insert into rewrite.rewrite_requests
       (rewrite_request_id, home_id, sender_user_id, recipient_user_id, recipient_snapshot_id,
        recipient_preference_snapshot_id, surface, rewrite_strength, source_locale, target_locale, source_locale_raw,
        target_locale_raw, lane, classifier_result, rewrite_request, idempotency_key, fingerprint, sender_reveal_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14::jsonb, $15, $18, $19,
        penstock.now() + $20::interval)
returning rewrite_request_id, recipient_snapshot_id, recipient_preference_snapshot_id, created_at, sender_reveal_at
