"""The act of reviews: the same repository every time, findings where they belong, and a doubled message is seen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from penstock.demo import shop, told
from penstock.emulator import Deliveries, Delivery

COMMITS = [shop.Commit("Ada", f"commit {number}", {"a.py": b"x\n" * 9}) for number in range(4)]


def test_two_plays_review_the_same_commits(tmp_path: Path) -> None:
    first, second = (shop.build(tmp_path / f"{name}.git") for name in ("one", "two"))
    assert first == second
    assert len({commit.revision for commit in first}) == len(first) == 4
    assert not list(tmp_path.glob("*.marks"))


class Owner:
    """Counts as the database would give them."""

    def __init__(self, rows: int, findings: list[tuple[str, int]], private: int) -> None:
        self.review_id = uuid4()
        self._rows = rows
        self._findings = findings
        self._private = private

    async def fetchrow(self, _query: str) -> dict[str, int]:
        return {"rows": self._rows, "told": self._rows, "proven": self._rows}

    async def fetch(self, _query: str) -> list[dict[str, Any]]:
        return [{"review_id": self.review_id, "file": file, "line": line} for file, line in self._findings]

    async def fetchval(self, _query: str, *_: object) -> int:
        return self._private


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({}, []),
        ({"messages": 12}, ["12 messages, 12 different, of 13"]),
        ({"twice": 1}, ["14 messages, 13 different, of 13"]),
        ({"posts": 4}, ["4 requests, 4 mails"]),
        ({"rows": 12}, ["12 of 12"]),
        ({"findings": [("a.py", 10)]}, ["1 findings, 1 elsewhere"]),
        ({"findings": [("b.py", 1)]}, ["1 findings, 1 elsewhere"]),
        ({"findings": []}, ["0 findings, 0 elsewhere"]),
        ({"log": f"sent to {told.ADA}"}, ["1 found"]),
        ({"private": 1}, [f"{len(told.WHERE_NO_ADDRESS_IS)} found"]),
    ],
)
async def test_what_goes_wrong_is_a_broken_promise(tmp_path: Path, changed: dict[str, Any], broken: list[str]) -> None:
    given: dict[str, Any] = {
        "messages": 13,
        "twice": 0,
        "posts": 5,
        "rows": 13,
        "findings": [("a.py", 9)],
        "log": "",
        "private": 0,
    }
    given |= changed
    deliveries = Deliveries()
    for number in [*range(given["messages"]), *range(4, 4 + given["twice"])]:
        channel = "resend" if number < 4 else "webhook"
        deliveries.add(Delivery(channel, f"{number}", f"{number}", "", b"", 0.0))
    calls = [SimpleNamespace(provider="resend", method="POST")] * given["posts"]
    emulator = SimpleNamespace(deliveries=deliveries, calls=calls, webhook_url=str)
    owner = Owner(given["rows"], given["findings"], given["private"])
    (tmp_path / "log").write_text(given["log"])
    stage = SimpleNamespace(owner=owner, log=tmp_path / "log")

    asked = {owner.review_id: COMMITS[0]}
    checks = await told.judge(cast("Any", stage), cast("Any", emulator), COMMITS, asked)

    assert [check.found for check in checks if not check.kept] == broken
