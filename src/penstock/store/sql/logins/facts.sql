-- Whose login this is, whether it is a member of role $1, and what of it no rule binds: by itself, or through a role that
-- it can become. Asked of the session's login: SET ROLE changes what it is at the moment, and RESET ROLE takes it back.
with reachable as materialized (
    select r.rolname::text as name, r.oid, r.rolsuper, r.rolbypassrls, r.rolreplication,
           -- Before 16 it may give itself every role but a superuser.
           r.rolcreaterole and current_setting('server_version_num')::integer < 160000 as gives_itself,
           r.rolname = session_user as own
      from pg_roles r
     where pg_has_role(session_user, r.oid, 'member')
)
select session_user::text as name,
       coalesce((select true from reachable where name = $1), false) as member,
       (select name from reachable where rolsuper order by own desc, name limit 1) as superuser,
       (select name from reachable where rolbypassrls order by own desc, name limit 1) as bypasses,
       (select name from reachable where rolreplication order by own desc, name limit 1) as replicates,
       (select name from reachable where gives_itself order by own desc, name limit 1) as gives_itself,
       -- The grants of a table do not count for these.
       (select name from reachable where name = any($3::text[]) order by name limit 1) as predefined,
       -- Row-level security does not bind the owner of a table, and the owner gives itself every right.
       (select o.name
          from pg_namespace n
          join reachable o on o.oid = n.nspowner
               or exists (select from pg_class c where c.relnamespace = n.oid and c.relowner = o.oid)
         where n.nspname = any($2::text[])
         order by o.own desc, o.name limit 1) as owns
