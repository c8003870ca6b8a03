-- Types whose worker asked for a policy that an operator has not synced, with the names of what differs.
select t.job_type,
       array(select coalesce(asked.key, stored.key) from jsonb_each(p.policy) as asked
               full join jsonb_each(t.policy) as stored on stored.key = asked.key
              where asked.value is distinct from stored.value
              order by 1) as names
  from penstock.pending_policies as p
  join penstock.types as t on t.job_type = p.job_type
 order by t.job_type
