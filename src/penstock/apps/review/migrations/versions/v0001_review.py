"""The review application: reviews, what was fetched and found, who is told and whether they were.

Safe before the deploy: it adds a schema, and triggers on the engine's jobs
and dead letters that look at its own type alone. Going down drops every review; the engine's
jobs stay.
"""

from __future__ import annotations

from pathlib import Path

from penstock.store.migrations import script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SQL = Path(__file__).parents[1] / "sql"
FOLDER = "0001_review"


def upgrade() -> None:
    """Create the schema of the application and give the roles that exist their rights."""
    script.run(
        f"{FOLDER}/01_reviews.sql",
        f"{FOLDER}/02_deliveries.sql",
        f"{FOLDER}/03_rules.sql",
        f"{FOLDER}/04_deliveries_rules.sql",
        f"{FOLDER}/07_grants.sql",
        f"{FOLDER}/08_apply.sql",
        folder=SQL,
    )


def downgrade() -> None:
    """Drop everything of the application; the roles belong to the cluster and stay."""
    script.run(f"{FOLDER}/down.sql", folder=SQL)
