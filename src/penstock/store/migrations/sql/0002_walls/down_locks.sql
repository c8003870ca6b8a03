-- Triggers leave jobs and types, which asks for both tables alone. Those who enqueue take types before jobs, those who claim
-- take jobs before types: so either both are had at once, or neither is held while others go on.
do $$
begin
    for attempt in 1 .. 500 loop
        begin
            lock table penstock.jobs in access exclusive mode;
            begin
                lock table penstock.types in access exclusive mode nowait;
                exit;
            exception when lock_not_available then
                raise exception 'types are in use' using errcode = 'PS099'; -- lets go of jobs, too
            end;
        exception when sqlstate 'PS099' then
            perform pg_sleep(0.005);
        end;
    end loop;
    lock table penstock.types in access exclusive mode;
end
$$;
