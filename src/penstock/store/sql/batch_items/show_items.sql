-- What became of each item of a batch.
select item.batch_item_index, item.job_id, item.attempt, item.claim_seq, item.state, item.code, item.provider_at,
       item.settled_at, item.input_tokens, item.output_tokens, item.cost_micros
  from penstock.batch_items as item
 where item.batch_id = $1
 order by item.batch_item_index
 limit $2
