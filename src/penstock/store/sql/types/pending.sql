-- Types whose worker asked for a policy that an operator has not synced, with the names of what differs or is held back.
select t.job_type,
       array(select coalesce(asked.key, stored.key) from jsonb_each(t.pending) as asked
               full join jsonb_each(t.policy) as stored on stored.key = asked.key
              where asked.value is distinct from stored.value
              order by 1) as names
  from penstock.types as t
 where t.pending is not null
 order by t.job_type
