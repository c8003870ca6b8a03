-- Dead letters by filter, oldest first; a null leaves that filter out.
select d.dead_letter_id
  from penstock.dead_letters as d
 where ($1::text[] is null or d.job_type = any($1))
   and ($2::text[] is null or d.error_class = any($2))
   and ($3::text[] is null or d.stage = any($3))
   and ($4::text[] is null or d.state = any($4))
   and ($5::text[] is null or d.cause = any($5))
   and ($6::boolean is null or (d.escalated_at is not null) = $6)
   and ($7::interval is null or d.last_failure_at <= penstock.now() - $7)
   and ($8::interval is null or d.last_failure_at > penstock.now() - $8)
 order by d.dead_letter_id
 limit $9
