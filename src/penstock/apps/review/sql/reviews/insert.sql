insert into review.reviews (review_id, job_id, changelist_id, review_version, label, rerun)
values ($1, $2, $3, $4, $5, $6)
