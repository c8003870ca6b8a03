select part, findings, dropped from review.parts where review_id = $1 order by part
