-- Schedules that their application no longer declares: they run no more, and their history stays.
update penstock.schedules
   set retired_at = penstock.now(), requested_at = null, requested_by = null
 where source = $1 and schedule <> all($2::text[]) and retired_at is null
returning schedule
