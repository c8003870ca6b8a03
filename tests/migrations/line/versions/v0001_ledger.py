"""The ledger of a made-up application."""

from pathlib import Path

from penstock.store.migrations import script

revision = "l0001"
down_revision = None
branch_labels = None
depends_on = None

FOLDER = Path(__file__).parents[1] / "sql"


def upgrade() -> None:
    script.run("up.sql", folder=FOLDER)


def downgrade() -> None:
    script.run("down.sql", folder=FOLDER)
