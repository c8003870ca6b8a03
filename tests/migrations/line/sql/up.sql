-- A table of the application's own, beside the engine.
create table ledger.entries (
    entry_id bigint generated always as identity primary key,
    note     text not null default 'a;b: $1'
);
create function ledger.count_of(p_note text) returns bigint
    language sql stable
as $body$
    select count(*) from ledger.entries where note = p_note;
$body$;
insert into ledger.entries (note) values ('first; of all')
