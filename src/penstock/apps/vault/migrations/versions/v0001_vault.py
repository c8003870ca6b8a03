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
    parts = ("01_items", "02_outbox", "03_jobs", "07_grants", "08_apply")
    script.run(*(f"{FOLDER}/{part}.sql" for part in parts), folder=SQL)


def downgrade() -> None:
    """Drop everything of the application; the roles belong to the cluster and stay."""
    script.run(f"{FOLDER}/down.sql", folder=SQL)
