"""Walls: locks that no other login can work out, a trail of keys and erasures, pinned paths.

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
BEFORE = "0001_rewrite"


def upgrade() -> None:
    """Replace the functions, pin the paths of those that run as the owner, and give the roles their rights."""
    script.run(f"{FOLDER}/up.sql", folder=SQL)


def downgrade() -> None:
    """Put the functions back as they were, from their own files."""
    script.restore(f"{BEFORE}/03_units.sql", "function rewrite.unit_lock", "function rewrite.lock_unit", folder=SQL)
    script.restore(f"{BEFORE}/06_erasure.sql", "function rewrite.rewrap", "function rewrite.forget_home", folder=SQL)
    script.run(f"{FOLDER}/down.sql", folder=SQL)
