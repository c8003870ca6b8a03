-- The items of a batch by name, and which of them still wait for their end.
select item.custom_id, item.batch_item_index, item.state = 'open' as open
  from penstock.batch_items as item
 where item.batch_id = $1
 order by item.batch_item_index
