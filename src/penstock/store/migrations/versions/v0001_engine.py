"""The engine: jobs, types, stages, runs, effects, batches, dead letters, audit.

Safe before the deploy: it only adds a schema. Going down drops every job.
"""

from __future__ import annotations

from penstock.store.migrations import script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

FOLDER = "0001_engine"


def upgrade() -> None:
    """Create the schema of the engine and give the roles that exist their rights."""
    script.run(
        f"{FOLDER}/01_clock_types.sql",
        f"{FOLDER}/02_jobs.sql",
        f"{FOLDER}/03_records.sql",
        f"{FOLDER}/04_enqueue.sql",
        f"{FOLDER}/05_claims.sql",
        f"{FOLDER}/05_gates.sql",
        f"{FOLDER}/05_effects.sql",
        f"{FOLDER}/05_batches.sql",
        f"{FOLDER}/05_retention.sql",
        f"{FOLDER}/05_history.sql",
        f"{FOLDER}/05_api_keys.sql",
        f"{FOLDER}/06_grants.sql",
        f"{FOLDER}/07_apply.sql",
    )


def downgrade() -> None:
    """Drop everything of the engine; the roles belong to the cluster and stay."""
    script.run(f"{FOLDER}/down.sql")
