-- Of two people, those who are members of the home, with what the one who is to receive wishes.
select m.user_id, u.locale_raw, p.tone, p.blocked_terms
  from rewrite.home_members as m
  join rewrite.users as u on u.user_id = m.user_id
  left join rewrite.preferences as p on p.home_id = m.home_id and p.user_id = m.user_id and m.user_id = $3
 where m.home_id = $1 and m.user_id in ($2, $3)
