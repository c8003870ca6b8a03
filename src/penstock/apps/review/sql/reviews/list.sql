-- The newest reviews, of one changelist where one is named.
select r.review_id, r.job_id, r.changelist_id, r.review_version, r.label, r.created_at,
       s.status, s.stage, s.failed_attempts, s.superseded_by_job_id
  from (select * from review.reviews
         where $1::text is null or changelist_id = $1
         order by created_at desc, review_id desc limit $2) as r
  cross join lateral review.standing(r.review_id) as s
 order by r.created_at desc, r.review_id desc
