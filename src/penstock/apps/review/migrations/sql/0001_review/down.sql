-- The engine's jobs stay; what this application hung on them goes first.
drop trigger review_own_job on penstock.jobs;
drop trigger review_end_job on penstock.jobs;
drop trigger review_letter on penstock.dead_letters;
drop trigger review_letter_again on penstock.dead_letters;
drop function review.apply_grants(), review.standing(uuid), review.waive_delivery(uuid, text), review.redeliver(integer),
    review.settle_delivery(uuid, boolean, text, text, boolean), review.suspect_delivery(uuid), review.job_status(uuid),
    review.note_lookup(uuid, text);
drop table review.delivery_attempts, review.deliveries, review.questions, review.parts, review.artifacts, review.recipients,
    review.creation_keys, review.reviews;
drop function review.name_missing(), review.end_job(), review.guard_delivery(), review.refuse_stray_job(), review.refuse_late_recipient(), review.refuse_change();
