-- What a stage needs to know of the review it works for.
select review_id, changelist_id, review_version, label, created_at from review.reviews where review_id = $1
