-- Submissions that were given up, to be looked for once more: each look comes later than the last, the final one a
-- day after the submission. A second watcher gets others.
update penstock.batches as b
   set next_poll_at = case when penstock.now() - b.created_at < interval '1 day'
                           then penstock.now() + greatest(interval '5 minutes', penstock.now() - b.created_at) end
 where b.batch_id = any(array(
       select w.batch_id from penstock.batches as w
        where w.state = 'abandoned' and w.job_type = $1 and w.next_poll_at <= penstock.now()
        order by w.next_poll_at
        limit $2
          for update skip locked))
returning b.batch_id, b.adapter, b.base_url, b.provider, b.model, b.item_count, b.created_at
