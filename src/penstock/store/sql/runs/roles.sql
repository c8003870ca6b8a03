-- Whether this login may work (claim and record) and whether it may ask for runs by hand. The schema's owner may both.
select pg_has_role(session_user, n.nspowner, 'member')
       or coalesce((select pg_has_role(session_user, r.oid, 'member') from pg_roles r where r.rolname = 'penstock_worker'), false)
           as works,
       pg_has_role(session_user, n.nspowner, 'member')
       or coalesce((select pg_has_role(session_user, r.oid, 'member') from pg_roles r where r.rolname = 'penstock_operator'), false)
           as operates
  from pg_namespace n where n.nspname = 'penstock'
