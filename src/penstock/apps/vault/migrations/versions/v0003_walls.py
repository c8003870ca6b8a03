"""Walls: pinned paths of the functions that run as the owner.

Safe before the deploy: it replaces functions and takes rights away that no
statement of the version before needs. Going down puts the functions back.
"""

from __future__ import annotations

from pathlib import Path

from penstock.store.migrations import script

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SQL = Path(__file__).parents[1] / "sql"
FOLDER = "0003_walls"


def upgrade() -> None:
    """Replace the functions, pin the paths of those that run as the owner, and give the roles their rights."""
    script.run(f"{FOLDER}/up.sql", folder=SQL)


def downgrade() -> None:
    """Put the functions back as they were, from their own files."""
    script.run(f"{FOLDER}/down.sql", folder=SQL)
