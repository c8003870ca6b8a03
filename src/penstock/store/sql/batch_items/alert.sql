-- An alert that says something new: while nobody has seen the one before, the same fact is not told twice.
insert into penstock.alerts (kind, severity, subject)
select $1::text, $2::text, $3::jsonb
 where not exists (select from penstock.alerts as a
                    where a.kind = $1::text and a.acknowledged_at is null
                      and a.subject @> $4::jsonb)
returning alert_id
