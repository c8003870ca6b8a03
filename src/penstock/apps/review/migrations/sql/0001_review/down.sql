-- The engine's jobs stay; what this application hung on them goes first.
drop function review.apply_grants();
drop table review.delivery_attempts, review.deliveries, review.parts, review.artifacts, review.recipients,
    review.creation_keys, review.reviews;
