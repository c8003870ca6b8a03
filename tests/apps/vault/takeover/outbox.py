"""An outbox of before, filled by hand, and the two ways: up into the engine and down again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import dict_row

from penstock.apps.vault.migrations import LINE
from penstock.apps.vault.migrations.versions import v0002_outbox, v0003_walls
from penstock.store.migrations import script
from tests.support import clusters

LONG_AGO: Final = datetime(2025, 12, 29, 10, 0, tzinfo=UTC)
PATIENCE: Final = 30.0
D12: Final = ("id", "item_id", "status", "attempt_count", "claimed_at", "last_error", "created_at")


@cache
def scripts(folder_name: str, *names: str) -> tuple[str, ...]:
    """The statements of these files of a migration."""
    folder = LINE.versions.parent / "sql" / folder_name
    return tuple(found for name in names for found in script.statements((folder / f"{name}.sql").read_text()))


@cache
def way_up() -> tuple[str, ...]:
    """What `upgrade` of 0002 runs, without Alembic's half second."""
    return scripts(v0002_outbox.FOLDER, *v0002_outbox.UP)


@cache
def way_down() -> tuple[str, ...]:
    """What `downgrade` of 0002 runs."""
    return scripts(v0002_outbox.FOLDER, *v0002_outbox.DOWN)


@cache
def walls(*names: str) -> tuple[str, ...]:
    """What 0003 runs."""
    return scripts(v0003_walls.FOLDER, *names)


@dataclass
class Outbox:
    """The outbox of one database, as its owner."""

    database: clusters.Database
    db: psycopg.Connection[Any]

    def run(self, statement: str, *values: Any) -> list[Any]:
        """Run it; rows as tuples."""
        cursor = self.db.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Run it; rows by name."""
        with self.db.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, values or None).fetchall()

    def one(self, statement: str, *values: Any) -> dict[str, Any]:
        """The only row."""
        (row,) = self.rows(statement, *values)
        return row

    def wait_for(self, question: str) -> None:
        """Ask until the answer is true; half a minute at most."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(question)[0][0]:
            assert time.monotonic() < deadline, f"never true: {question}"

    def up(self) -> None:
        """Take the outbox over and go on to the newest revision, in one transaction."""
        self._run((*way_up(), *walls("up")))

    def down(self) -> None:
        """Give it back from there, in one transaction."""
        self._run((*walls("down"), *way_down()))

    def _run(self, statements: Sequence[str]) -> None:
        with self.db.transaction():
            for statement in statements:
                self.db.execute(statement)

    def item(self, status: str = "ENRICHING") -> UUID:
        """Save an item."""
        item_id = uuid4()
        found = None if status in {"ENRICHING", "DISCARDED", "ENRICHMENT_FAILED"} else "{}"
        self.run(
            "insert into vault.items (id, owner_id, kind, content, status, enrichment, failure_code) "
            "values (%s, %s, 'note', 'a note', %s, %s, %s)",
            item_id, uuid4(), status, found, "LEGACY_FAILURE" if status == "ENRICHMENT_FAILED" else None,
        )  # fmt: skip
        return item_id

    def put(self, status: str = "PENDING", *, table: str = "vault.enrichment_outbox", **given: Any) -> UUID:
        """A row, with an item unless one is given; returns its id."""
        row = {"id": uuid4(), "status": status, "attempt_count": 0, "created_at": LONG_AGO, **given}
        row.setdefault("item_id", None)
        if "item_id" not in given:
            row["item_id"] = self.item()
        names = ", ".join(row)
        self.run(f"insert into {table} ({names}) values ({', '.join(['%s'] * len(row))})", *row.values())
        found: UUID = row["id"]
        return found

    def job(self, job_id: object) -> dict[str, Any]:
        """The job that a row became."""
        return self.one("select * from penstock.jobs where job_id = %s", job_id)

    def seen(self, job_id: object) -> dict[str, Any]:
        """The row as the view shows it."""
        return self.one("select * from vault.enrichment_outbox where id = %s", job_id)

    def problems(self) -> list[str]:
        """What is wrong with the quarantined rows."""
        return [row[0] for row in self.run("select problem from vault.outbox_quarantine order by quarantine_id")]

    def legacy(self) -> psycopg.Connection[Any]:
        """A session of a producer or a poller of before."""
        return psycopg.connect(self.database.dsn, autocommit=True, row_factory=dict_row, options="-c search_path=vault")
