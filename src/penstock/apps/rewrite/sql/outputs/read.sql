-- What was rewritten, and whom it may be delivered to: the members of the snapshot and nobody else (A-70).
select o.recipient_user_id, o.rewrite_response, o.output_locale, r.rewrite_completed_at, r.sender_reveal_at,
       array(select m.user_id from rewrite.recipient_snapshot_members as m
              where m.recipient_snapshot_id = r.recipient_snapshot_id order by m.user_id) as recipient_user_ids
  from rewrite.rewrite_requests as r
  join rewrite.rewrite_outputs as o
    on o.rewrite_request_id = r.rewrite_request_id and o.recipient_user_id = r.recipient_user_id
 where r.rewrite_request_id = $1 and r.status = 'completed'
