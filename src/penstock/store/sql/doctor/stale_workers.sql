select w.worker_id, w.host, w.pid, penstock.now() - w.heartbeat_at as silent
  from penstock.workers as w
 where w.stopped_at is null and w.heartbeat_at <= penstock.now() - $1::interval
 order by w.heartbeat_at desc
 limit 20
