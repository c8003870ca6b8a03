"""Suspects: jobs whose process ended while it held them, which run alone until they are known to be innocent.

Safe before the deploy: workers of the version before go on as they were, and
take suspects for jobs that have fallen due. It makes one index, which is empty
at first, so it reads the job table once. Going down loses no job.
"""

from __future__ import annotations

from penstock.store.migrations import script

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

FOLDER = "0003_suspects"
BEFORE = "0001_engine"  # 0002 has let these functions run as the owner, and changed nothing else in them


def upgrade() -> None:
    """Let the reaper mark suspects, and claim them one by one under the gates of their types."""
    script.run(
        f"{FOLDER}/01_columns.sql",
        f"{FOLDER}/02_reap.sql",
        f"{FOLDER}/03_gates.sql",
        f"{FOLDER}/04_runs.sql",
        f"{FOLDER}/05_grants.sql",
        f"{FOLDER}/06_apply.sql",
    )


def downgrade() -> None:
    """Put the functions back as they were and forget who is a suspect."""
    script.run("0002_walls/down_locks.sql", f"{FOLDER}/down.sql")
    script.restore(f"{BEFORE}/03_records.sql", "function penstock.save_runs")
    script.restore(f"{BEFORE}/05_claims.sql", "function penstock.reap")
    script.restore(f"{BEFORE}/05_gates.sql", "function penstock.claim_gated")
    script.run(f"{FOLDER}/down_apply.sql")
