-- A review as whoever asked for it sees it.
select r.review_id, r.job_id, r.changelist_id, r.review_version, r.label, r.created_at,
       s.status, s.stage, s.failed_attempts, s.superseded_by_job_id, a.revision, a.parts,
       (select count(*) from review.parts as p where p.review_id = r.review_id) as answered
  from review.reviews as r
  cross join lateral review.standing(r.review_id) as s
  left join review.artifacts as a on a.review_id = r.review_id
 where r.review_id = $1
