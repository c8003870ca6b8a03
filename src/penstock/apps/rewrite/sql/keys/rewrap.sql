-- A set of homes, each only if its key is still wrapped as it was read; those that were.
select k.home_id
  from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as k(home_id, was, wrapped)
 where rewrite.rewrap(k.home_id, k.was, $4, k.wrapped)
