-- Reports over all homes (A-81). They run as the owner and answer with sums: no id of a home, a user, a request or a job.

-- What each pair of languages has cost.
create function rewrite.cost_by_pair(p_since date default null, p_until date default null)
    returns table (source_locale text, target_locale text, lane text, execution text, calls bigint, input_tokens bigint,
                   output_tokens bigint, cost_micros bigint)
    language sql stable security definer set search_path = pg_catalog
as $$
    select s.source_locale, s.target_locale,
           case when s.source_locale = s.target_locale then 'same_language' else 'cross_language' end, s.execution,
           sum(s.calls)::bigint, sum(s.input_tokens)::bigint, sum(s.output_tokens)::bigint, sum(s.cost_micros)::bigint
      from penstock.spend s
     where s.job_type = 'complaint_rewrite'
       and s.day >= coalesce(p_since, '-infinity') and s.day <= coalesce(p_until, 'infinity')
     group by s.source_locale, s.target_locale, s.execution
     order by s.source_locale, s.target_locale, s.execution
$$;

-- How requests of each pair of languages have ended. The rate is of those that have: what waits says nothing yet.
create function rewrite.failures_by_pair(p_since timestamptz default null, p_until timestamptz default null)
    returns table (source_locale text, target_locale text, lane text, requests bigint, completed bigint, failed bigint,
                   canceled bigint, waiting bigint, failure_rate double precision)
    language sql stable security definer set search_path = pg_catalog
as $$
    select r.source_locale, r.target_locale, r.lane, count(*), count(*) filter (where r.status = 'completed'),
           count(*) filter (where r.status = 'failed'), count(*) filter (where r.status = 'canceled'),
           count(*) filter (where r.status in ('received', 'queued')),
           count(*) filter (where r.status = 'failed')::double precision
               / nullif(count(*) filter (where r.status in ('completed', 'failed')), 0)
      from rewrite.rewrite_requests r
     where r.created_at >= coalesce(p_since, '-infinity') and r.created_at < coalesce(p_until, 'infinity')
     group by r.source_locale, r.target_locale, r.lane
     order by r.source_locale, r.target_locale
$$;

-- What each set of versions let through and refused: a version that refuses more than the one before it has regressed.
create function rewrite.eval_regressions(p_since timestamptz default null, p_until timestamptz default null)
    returns table (prompt_version text, model text, eval_version text, lexicon_version text, passed bigint, refused bigint,
                   refusal_rate double precision, codes jsonb)
    language sql stable security definer set search_path = pg_catalog
as $$
    with judged as (
        select o.job_id, o.eval_version, o.lexicon_version, o.created_at, null::text as code from rewrite.rewrite_outputs o
        union all
        select f.job_id, f.eval_version, f.lexicon_version, f.created_at, f.code from rewrite.evaluation_failures f
    ), counted as (
        select d.routing_decision ->> 'prompt_version' as prompt_version, d.routing_decision ->> 'model' as model,
               j.eval_version, j.lexicon_version, j.code, count(*) as number
          from judged j join rewrite.rewrite_jobs d on d.job_id = j.job_id
         where j.created_at >= coalesce(p_since, '-infinity') and j.created_at < coalesce(p_until, 'infinity')
         group by 1, 2, 3, 4, 5
    )
    select c.prompt_version, c.model, c.eval_version, c.lexicon_version,
           coalesce(sum(c.number) filter (where c.code is null), 0)::bigint,
           coalesce(sum(c.number) filter (where c.code is not null), 0)::bigint,
           (coalesce(sum(c.number) filter (where c.code is not null), 0) / sum(c.number))::double precision,
           coalesce(jsonb_object_agg(c.code, c.number) filter (where c.code is not null), '{}')
      from counted c
     group by c.prompt_version, c.model, c.eval_version, c.lexicon_version
     order by c.prompt_version, c.model, c.eval_version, c.lexicon_version
$$;

-- When which failure was met, where, and by how many jobs; the newest hour first.
create function rewrite.incidents(p_code text default null, p_since timestamptz default null,
                                  p_until timestamptz default null)
    returns table (hour timestamptz, code text, provider text, model text, execution_mode text, jobs bigint, failed bigint,
                   first_at timestamptz, last_at timestamptz)
    language sql stable security definer set search_path = pg_catalog
as $$
    select date_trunc('hour', e.at, 'UTC'), e.code, d.routing_decision ->> 'provider', d.routing_decision ->> 'model',
           d.routing_decision ->> 'execution_mode', count(distinct e.job_id),
           count(*) filter (where e.to_status = 'failed'), min(e.at), max(e.at)
      from penstock.job_events e
      join rewrite.rewrite_jobs d on d.job_id = e.job_id
     where e.code is not null and e.code = coalesce(p_code, e.code)
       and e.at >= coalesce(p_since, '-infinity') and e.at < coalesce(p_until, 'infinity')
     group by 1, 2, 3, 4, 5
     order by 1 desc, 2, 3, 4, 5
$$;
