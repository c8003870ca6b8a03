-- The next alert to announce. Of several announcers each gets another one; one that dies lets go of its alert.
select a.alert_id, a.kind, a.severity, a.subject::text as subject, a.created_at, a.acknowledged_at, a.acknowledged_by
  from penstock.alerts as a
 where a.announced_at is null and a.alert_id > $1
 order by a.alert_id
 limit 1
   for update skip locked
