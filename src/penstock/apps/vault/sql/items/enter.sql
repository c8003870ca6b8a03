-- The owner of this transaction: row-level security shows and takes rows of this one alone, until it commits.
select set_config('penstock.owner_id', cast(cast($1 as uuid) as text), true) as owner
