drop function vault.apply_grants();
drop table vault.items;
drop function vault.current_owner();
