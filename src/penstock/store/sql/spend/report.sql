-- What was spent, summed up by the parts asked for; a part not asked for is null.
select case when 'day' = any($1::text[]) then s.day end as day,
       case when 'type' = any($1::text[]) then s.job_type end as job_type,
       case when 'model' = any($1::text[]) then s.provider || '/' || s.model end as model,
       case when 'pair' = any($1::text[]) then coalesce(nullif(s.source_locale || '>' || s.target_locale, '>'), '') end as pair,
       case when 'execution' = any($1::text[]) then s.execution end as execution,
       sum(s.calls)::bigint as calls, sum(s.input_tokens)::bigint as input_tokens,
       sum(s.output_tokens)::bigint as output_tokens, sum(s.cost_micros)::bigint as cost_micros
  from penstock.spend as s
 where s.day >= coalesce($2::date, '-infinity') and s.day <= coalesce($3::date, 'infinity')
   and ($4::text is null or s.job_type = $4)
 group by 1, 2, 3, 4, 5
 order by 1 desc nulls last, 9 desc, 2, 3, 4, 5
