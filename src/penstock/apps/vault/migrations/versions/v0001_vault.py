"""The vault: items, and the outbox as it was before the engine.

Safe before the deploy: it adds a schema and leaves an outbox that is there
alone. Going down drops every item.
"""

from __future__ import annotations

from pathlib import Path

from penstock.store.migrations import script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SQL = Path(__file__).parents[1] / "sql"
FOLDER = "0001_vault"


def upgrade() -> None:
    """Create the schema of the application and give the roles that exist their rights."""
    script.run(f"{FOLDER}/01_items.sql", f"{FOLDER}/07_grants.sql", f"{FOLDER}/08_apply.sql", folder=SQL)


def downgrade() -> None:
    """Drop everything of the application; the roles belong to the cluster and stay."""
    script.run(f"{FOLDER}/down.sql", folder=SQL)
