"""The take-over of the outbox: its rows become jobs, and a view with its name and its words takes its place.

Safe before the deploy: producers and pollers of before go on through the view.
What has ended moves while they work; then they wait until the open rows have
moved too. A row that cannot become a job goes into vault.outbox_quarantine
with the problem it has. Going down gives every job back to the table, in the
words that it had; everybody who works on jobs waits for that.
"""

from __future__ import annotations

from pathlib import Path

from penstock.store.migrations import script

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SQL = Path(__file__).parents[1] / "sql"
FOLDER = "0002_outbox"
UP = ("01_tables", "02_reading", "03_moving", "04_view", "05_writing", "06_moves", "07_take")
DOWN = ("down_moving", "down")


def upgrade() -> None:
    """Move the rows, make the views, and give the roles that exist their rights."""
    script.run(*(f"{FOLDER}/{part}.sql" for part in UP), folder=SQL)


def downgrade() -> None:
    """Give the rows back, and drop everything that stood between."""
    script.run(*(f"{FOLDER}/{part}.sql" for part in DOWN), folder=SQL)
