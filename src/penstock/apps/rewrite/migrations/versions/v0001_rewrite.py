"""The rewrite application: homes, frozen snapshots, requests, outputs, isolation between homes.

Safe before the deploy: it adds a schema, and triggers on the engine's jobs
that look at its own type alone. Going down drops every message, sealed or
not; the engine's jobs stay.
"""

from __future__ import annotations

from pathlib import Path

from penstock.store.migrations import script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SQL = Path(__file__).parents[1] / "sql"
FOLDER = "0001_rewrite"


def upgrade() -> None:
    """Create the schema of the application and give the roles that exist their rights."""
    script.run(
        f"{FOLDER}/01_homes.sql",
        f"{FOLDER}/02_requests.sql",
        f"{FOLDER}/03_rules.sql",
        f"{FOLDER}/03_units.sql",
        f"{FOLDER}/04_views.sql",
        f"{FOLDER}/05_isolation.sql",
        f"{FOLDER}/06_reports.sql",
        f"{FOLDER}/06_erasure.sql",
        f"{FOLDER}/06_alerts.sql",
        f"{FOLDER}/07_grants.sql",
        f"{FOLDER}/08_apply.sql",
        folder=SQL,
    )


def downgrade() -> None:
    """Drop everything of the application; the roles belong to the cluster and stay."""
    script.run(f"{FOLDER}/down.sql", folder=SQL)
