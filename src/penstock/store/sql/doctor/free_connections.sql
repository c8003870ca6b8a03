-- How many more logins that are no superuser fit.
select current_setting('max_connections')::integer
       - current_setting('superuser_reserved_connections')::integer
       - coalesce(current_setting('reserved_connections', true)::integer, 0)
       - (select count(*) from pg_stat_activity where backend_type = 'client backend')::integer
