-- Alerts, newest first.
select a.alert_id, a.kind, a.severity, a.subject::text as subject, a.created_at, a.acknowledged_at, a.acknowledged_by
  from penstock.alerts as a
 where ($1::text is null or a.kind = $1) and (not $2 or a.acknowledged_at is null)
 order by a.alert_id desc
 limit $3
