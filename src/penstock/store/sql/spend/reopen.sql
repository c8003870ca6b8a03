-- Types that their daily cap has paused and that have room again: a new day has begun, or the cap was raised. The
-- stored cap counts beside the one asked with. What an operator has paused stays paused.
update penstock.types as type
   set paused_at = null, paused_by = null, pause_reason = null
  from (select asked.job_type, least(asked.cap, penstock.daily_cap(stored.policy) * 1000000) as cap
          from unnest($1::text[], $2::bigint[]) as asked(job_type, cap)
          join penstock.types as stored on stored.job_type = asked.job_type) as capped
 where type.job_type = capped.job_type and type.paused_at is not null
   and type.paused_by = 'penstock' and type.pause_reason = 'SPEND_CAP'
   and (capped.cap is null
        or capped.cap > (select coalesce(sum(s.cost_micros), 0) from penstock.spend as s
                          where s.day = (penstock.now() at time zone 'UTC')::date and s.job_type = type.job_type))
returning type.job_type
