-- Types whose worker asked for a policy that an operator has not synced, with the names of the values that wait.
select p.job_type, array(select distinct split_part(path, ',', 1) from unnest(p.held) as path order by 1) as names
  from penstock.pending_policies as p
 order by p.job_type
