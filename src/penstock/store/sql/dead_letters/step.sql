-- One step of the operator's work with its trace. The caller holds the letter's lock and has checked the step; the function
-- checks it again, and keeps the login beside the name given.
select penstock.take_step($1, $2, $3, $4::jsonb, $5, $6, $7, $8, $9)
