-- The home of this transaction: row-level security shows and takes rows of this one alone, until it commits.
select set_config('penstock.home_id', $1::uuid::text, true)
