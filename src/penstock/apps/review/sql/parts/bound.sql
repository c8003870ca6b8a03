select part from review.questions where job_id = $1 and claim_seq = $2
