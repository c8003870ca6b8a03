-- Take a worker's name, unless its owner is alive; $12 is an owner whose process is known to be gone. A name of another
-- login is free when that worker has stopped or has been silent, as the trigger on this table says.
insert into penstock.workers as w
    (worker_id, instance, host, pid, version, types, concurrency, notify, poll_seconds, process,
     started_at, heartbeat_at)
values ($1, $2, $3, $4, $5, $6, $7, $9, $10, $11, penstock.now(), penstock.now())
on conflict (worker_id) do update
   set instance = excluded.instance, host = excluded.host, pid = excluded.pid, version = excluded.version,
       types = excluded.types, concurrency = excluded.concurrency, notify = excluded.notify,
       poll_seconds = excluded.poll_seconds, process = excluded.process, started_at = excluded.started_at,
       heartbeat_at = excluded.heartbeat_at, stopped_at = null, running = 0
 where w.stopped_at is not null or w.heartbeat_at < penstock.now() - $8::interval
    or w.instance = excluded.instance
    or (w.instance = $12 and coalesce(w.db_user, session_user) = session_user)
returning w.worker_id
