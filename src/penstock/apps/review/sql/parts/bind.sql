-- Remember what this claim asks about; a second question under the same claim is the same one.
with bound as (
    insert into review.questions (job_id, claim_seq, review_id, part) values ($1, $2, $3, $4)
    on conflict (job_id, claim_seq) do nothing
    returning part
)
select coalesce((select part from bound), (select part from review.questions where job_id = $1 and claim_seq = $2))
