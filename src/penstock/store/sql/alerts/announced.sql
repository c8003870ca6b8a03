-- Done when every sink took it ($2), or when it was offered often enough ($3).
update penstock.alerts as a
   set announce_tries = a.announce_tries + 1,
       announced_at = case when $2 or a.announce_tries + 1 >= $3 then penstock.now() end
 where a.alert_id = $1
