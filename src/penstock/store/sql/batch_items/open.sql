-- Which items of a batch still wait for their end: names only, so that a batch of any size fits.
select item.custom_id, item.batch_item_index
  from penstock.batch_items as item
 where item.batch_id = $1 and item.state = 'open'
 order by item.batch_item_index
