"""The versions of the schema, run by Alembic; `penstock.store.migrate` is the way in."""
