-- The engine's jobs stay; what this application hung on them goes first.
drop trigger review_own_job on penstock.jobs;
drop function review.apply_grants(), review.standing(uuid);
drop table review.delivery_attempts, review.deliveries, review.questions, review.parts, review.artifacts, review.recipients,
    review.creation_keys, review.reviews;
drop function review.refuse_stray_job(), review.refuse_late_recipient(), review.refuse_change();
