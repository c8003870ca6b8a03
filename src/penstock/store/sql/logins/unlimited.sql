-- Logins that are members of one of the roles $1 and lack a connection limit or a setting of $2. A setting counts where a
-- new session of that login in this database would find it: of the login, or of the database. One that says 0 counts as
-- said: a worker whose types have no time limit cannot have an idle limit either.
with said as (
    select s.setrole, split_part(c.setting, '=', 1) as name
      from pg_db_role_setting s, unnest(s.setconfig) as c(setting)
     where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
),
members as (
    select l.oid, l.rolname::text as name, l.rolconnlimit < 0 as unlimited, min(r.rolname::text) as role
      from pg_roles l
      join pg_roles r on r.rolname = any($1::text[]) and pg_has_role(l.oid, r.oid, 'member')
     where l.rolcanlogin and not l.rolsuper and not l.rolname = any($1::text[])
     group by l.oid, l.rolname, l.rolconnlimit
),
lacking as (
    select m.name, m.role, m.unlimited,
           array(select t.name from unnest($2::text[]) as t(name)
                  where not exists (select from said where said.name = t.name and said.setrole in (0, m.oid))
                  order by t.name) as missing
      from members m
)
select name, role, unlimited, missing from lacking where unlimited or missing <> '{}' order by name
