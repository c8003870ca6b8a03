"""Walls: a redelivery only where one is due, a trail of what operators settle, pinned paths.

Safe before the deploy: it replaces functions and takes rights away that no
statement of the version before needs. Going down puts the functions back.
"""

from __future__ import annotations

from pathlib import Path

from penstock.store.migrations import script

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SQL = Path(__file__).parents[1] / "sql"
FOLDER = "0002_walls"
BEFORE = "0001_review"


def upgrade() -> None:
    """Replace the functions, pin the paths of those that run as the owner, and give the roles their rights."""
    script.run(f"{FOLDER}/up.sql", folder=SQL)


def downgrade() -> None:
    """Put the functions back as they were, from their own files."""
    script.restore(f"{BEFORE}/03_rules.sql", "function review.refuse_stray_job", folder=SQL)
    script.restore(
        f"{BEFORE}/04_deliveries_rules.sql",
        "function review.settle_delivery",
        "function review.waive_delivery",
        folder=SQL,
    )
    script.run(f"{FOLDER}/down.sql", folder=SQL)
