-- Every version of a changelist that was ever asked for, and whether it has succeeded.
select r.review_id, r.review_version, s.status = 'completed' as succeeded
  from review.reviews as r, lateral review.standing(r.review_id) as s
 where r.changelist_id = $1
 order by r.review_version
