select channel, address, required from review.recipients where review_id = $1 order by recipient
