-- Finished jobs past their time. $1 is the earliest cutoff of any type: it leads the planner to the block-range index
-- on finished_at. Ids only; penstock.prune_jobs looks at each again.
select p.job_id from penstock.prunable_jobs as p where p.finished_at < $1 limit $2
