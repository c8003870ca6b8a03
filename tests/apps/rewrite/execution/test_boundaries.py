"""What the side that executes does not do: it has neither the code nor the rights for it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from penstock.apps import rewrite
from penstock.apps.rewrite import execution, hydration, locks
from penstock.store.roles import WORKER
from tests.apps.rewrite.conftest import World

HERE = Path(rewrite.__file__ or "").parent
WORKING = (execution, hydration, locks)  # what a submitter and a collector run of this application
DECIDING = {
    "orchestrator", "classify_or_fallback", "rule_classifier", "llm_classifier", "route", "load_table", "RoutingInput",
    "source_locale", "target_locale", "lane_of", "load_party", "insert_request", "insert_job", "mark_queued",
    "put_member", "put_preferences", "sender_reveal_at",
}  # fmt: skip
DELIVERING = {"smtplib", "email", "httpx", "urllib", "socket", "requests", "penstock.channels", "penstock.web"}


def imports(module: object) -> Iterator[str]:
    """Every module and name that is imported, at run time or for types."""
    tree = ast.parse(Path(str(module.__file__)).read_text())  # type: ignore[attr-defined]  # modules have files
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (alias.name for alias in node.names)


def names(module: object) -> set[str]:
    """Every name and attribute that the code mentions."""
    tree = ast.parse(Path(str(module.__file__)).read_text())  # type: ignore[attr-defined]  # modules have files
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.contract("A-02", "A-84", "L-04", "L-68")
@pytest.mark.parametrize("module", WORKING, ids=lambda module: module.__name__.rpartition(".")[2])
def test_what_executes_decides_nothing_and_delivers_nothing(module: object) -> None:
    used = set(imports(module))
    mentioned = {name for name in names(module) if name not in ("source_locale", "target_locale")}
    assert used & DECIDING == set()
    assert mentioned & (DECIDING - {"route"}) == set()
    assert {name for name in used if name.split(".")[0] in DELIVERING or name in DELIVERING} == set()


@pytest.mark.contract("L-18", "A-72", "L-60", "A-69", "L-69")
@pytest.mark.parametrize(
    "statement",
    [
        "select * from rewrite.home_members",
        "select * from rewrite.users",
        "select * from rewrite.preferences",
        "select sender_reveal_at from rewrite.rewrite_requests",
        "update rewrite.rewrite_requests set sender_reveal_at = now()",
        "insert into rewrite.recipient_snapshots (recipient_snapshot_id, home_id) values (gen_random_uuid(), $1)",
        "select penstock.enqueue('complaint_rewrite', '{}')",
    ],
)
async def test_a_worker_has_no_right_to_people_wishes_reveals_or_enqueues(
    world: World, role_dsn: Callable[[str], str], statement: str
) -> None:
    sent = await world.send(await world.home())
    worker = await asyncpg.connect(role_dsn(WORKER))
    try:
        async with worker.transaction():
            await worker.execute("select set_config('penstock.home_id', $1, true)", str(sent.home.home_id))
            assert await worker.fetchval("select count(*) from rewrite.rewrite_jobs") == 1
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with worker.transaction():
                    await worker.execute(statement.replace("$1", f"'{sent.home.home_id}'"))
    finally:
        await worker.close()


@pytest.mark.contract("A-35")
async def test_only_the_orchestrators_login_can_take_a_message(world: World) -> None:
    home = await world.home()
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await world.worker.submit_rewrite(
            home_id=home.home_id, sender_user_id=home.sender, recipient_user_ids=[home.recipient],
            text="Close the door!", surface="other",
        )  # fmt: skip
    assert await world.owner.fetchval("select count(*) from rewrite.rewrite_requests") == 0
