"""Walls: what a leaked login of a role cannot do; who did what; how long records are kept.

Safe before the deploy: statements of the version before go on working but for
those that no role may run any more (an operator's INSERT of a job, a worker's
steps on dead letters). Going down keeps every job, and drops the trail of
operators and what was set about retention.
"""

from __future__ import annotations

from penstock.store.migrations import script

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

FOLDER = "0002_walls"
BEFORE = "0001_engine"


def upgrade() -> None:
    """Close what the roles of 0001 left open."""
    script.run(
        f"{FOLDER}/01_paths.sql",
        f"{FOLDER}/02_moves.sql",
        f"{FOLDER}/03_policies.sql",
        f"{FOLDER}/04_records.sql",
        f"{FOLDER}/05_operators.sql",
        f"{FOLDER}/06_retention.sql",
        f"{FOLDER}/07_enqueue.sql",
        f"{FOLDER}/08_grants.sql",
        f"{FOLDER}/09_apply.sql",
    )


def downgrade() -> None:
    """Put back what 0001 had, from its own files."""
    script.run(f"{FOLDER}/down_locks.sql", f"{FOLDER}/down.sql")
    script.restore(f"{BEFORE}/02_jobs.sql", "function penstock.refuse_illegal_change", "trigger jobs_legal_moves")
    script.restore(f"{BEFORE}/03_records.sql", "function penstock.refuse_rewriting")
    script.restore(
        f"{BEFORE}/04_enqueue.sql",
        "function penstock.put_job",
        "function penstock.put_jobs",
        "function penstock.raise_refusal",
        "function penstock.cancel",
    )
    script.restore(f"{BEFORE}/05_claims.sql", "function penstock.bury")
    script.restore(f"{BEFORE}/05_batches.sql", "function penstock.add_spend")
    script.restore(
        f"{BEFORE}/05_retention.sql",
        "view penstock.prunable_jobs",
        "view penstock.prunable_effects",
        "function penstock.keep_keys",
        "function penstock.prune_audit",
        "function penstock.prune_old",
    )
    script.restore(
        f"{BEFORE}/05_api_keys.sql",
        "function penstock.create_key",
        "function penstock.list_keys",
        "function penstock.revoke_key",
    )
    script.restore(f"{BEFORE}/06_grants.sql", "function penstock.clear_grants", "function penstock.apply_grants")
    script.run(f"{FOLDER}/down_apply.sql", f"{BEFORE}/07_apply.sql")
