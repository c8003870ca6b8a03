-- Which of these policies differ from what is written. Most workers start with what the last one has announced.
select given.job_type
  from unnest($1::text[], $2::text[]) with ordinality as given (job_type, policy, place)
  left join penstock.types as t on t.job_type = given.job_type
 where t.policy is distinct from given.policy::jsonb
 order by given.place
