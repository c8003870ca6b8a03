"""A version that adds a table and then waits for a lock that a test holds, or fails when a test says so."""

from alembic import op

revision = "l0002"
down_revision = "l0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("create table ledger.half_made (n integer)")
    op.execute("select pg_advisory_xact_lock(4711)")
    op.execute("select 1 / (current_setting('ledger.divisor', true) is distinct from '0')::integer")
    op.execute("alter table ledger.entries add column amount numeric not null default 0")


def downgrade() -> None:
    op.execute("alter table ledger.entries drop column amount")
    op.execute("drop table ledger.half_made")
