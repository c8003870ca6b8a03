drop function ledger.count_of(text);
drop table ledger.entries;
