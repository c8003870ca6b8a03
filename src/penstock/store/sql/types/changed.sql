-- Which of these policies differ from what is written. Most workers start with what the last one has announced. What waits
-- for an operator is not announced again by a worker; an operator lets it take effect.
select given.job_type
  from unnest($1::text[], $2::text[]) with ordinality as given (job_type, policy, place)
  left join penstock.types as t on t.job_type = given.job_type
  left join penstock.pending_policies as p on p.job_type = given.job_type
 where case when penstock.is_operator() then t.policy is distinct from given.policy::jsonb or p.policy is not null
            else t.policy is distinct from given.policy::jsonb and p.policy is distinct from given.policy::jsonb end
 order by given.place
