-- One step of the operator's work with its trace, in one statement. The caller holds the letter's lock and has checked
-- the step. What a step does not set it leaves alone; triage passes nulls to drop what was recorded after it.
with letter as (
    update penstock.dead_letters as d
       set state = $2, cause = $3, remediation = $4, ticket = $5, replay_safe = $6, notes = $7,
           closed_at = case when $2 = 'resolved' then penstock.now() end
     where d.dead_letter_id = $1
    returning d.dead_letter_id
)
insert into penstock.dead_letter_events (dead_letter_id, step, operator, detail)
select letter.dead_letter_id, $8, $9, $10::jsonb from letter
