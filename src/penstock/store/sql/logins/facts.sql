-- Whose login this is, whether it is a member of role $1, and whether it owns a schema of $2: row-level security does
-- not bind the owner of a table.
select session_user::text as name,
       coalesce((select pg_has_role(r.oid, 'member') from pg_roles r where r.rolname = $1), false) as member,
       exists (select from pg_namespace n
                where n.nspname = any($2::text[]) and pg_has_role(n.nspowner, 'member')) as owns
