"""The demo: kept promises are exit code 0, a broken one is not."""

import io
import struct
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli import cli
from penstock.demo.bill import judged
from penstock.demo.pictures import draw, png, shrink
from penstock.demo.play import play
from penstock.demo.stage import Check, Stage
from penstock.demo.view import View
from tests.support.processes import run_penstock


@pytest.mark.long
@pytest.mark.contract("C-31", "C-36", "C-60", "C-61", "C-65")
def test_the_play_keeps_every_promise_and_leaves_nothing_behind(home: Path) -> None:
    done = run_penstock(["demo"], None, env={"TMPDIR": str(home)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BROKEN" not in done.stdout
    assert done.stdout.count("kill -9") == 4  # the title of an act, a worker, a submitter, a worker of the vault
    assert done.stdout.count(" kept") == 42
    assert "Nothing was lost, nothing was doubled." in done.stdout
    assert list(home.iterdir()) == []


async def test_a_broken_promise_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(record=True, width=120, file=io.StringIO())

    @asynccontextmanager
    async def no_server(*_: object) -> AsyncIterator[Mock]:
        yield Mock()

    async def act(_: Stage) -> list[Check]:
        return [Check("water flows down", "it does", kept=True), Check("pigs fly", "they do not", kept=False)]

    monkeypatch.setattr("penstock.demo.play.set_up", no_server)
    assert not await play(View(console), acts=(act,))
    assert "pigs fly          they do not  BROKEN" in console.export_text()


def test_a_bill_that_does_not_add_up_is_a_broken_promise() -> None:
    found = {"tickets": 3, "replies": 3, "failed": 1, "foreign_ones": 0}
    spent = {
        "execution": "batch", "provider": "openai", "model": "gpt-5-mini", "calls": 3, "input_tokens": 4000,
        "output_tokens": 1000, "cost_micros": 1500,
    }  # fmt: skip

    def broken(sent: str = "ab", created: str = "ab", total: int = 4, **changed: int) -> list[str]:
        more = {**found, **{name: changed[name] for name in found.keys() & changed.keys()}}
        paid = [{**spent, **{name: changed[name] for name in spent.keys() & changed.keys()}}]
        return [check.found for check in judged(list(sent), Counter(created), more, paid, total) if not check.kept]

    assert broken() == []
    assert broken(created="aab") == ["2 submissions, 3 batches"]
    assert broken(created="a") == ["2 submissions, 1 batches"]
    assert broken(sent="aab", created="aab") == ["3 submissions, 3 batches"]
    assert broken(replies=4) == ["3 answered, 1 failed, of 4; 1 twice"]
    assert broken(total=5) == ["3 answered, 1 failed, of 5; 0 twice"]
    assert broken(foreign_ones=1) == ["1 do"]
    assert broken(cost_micros=3000) == ["$0.0030 instead of $0.0030"]
    assert broken(cost_micros=0) == ["$0.0000 instead of $0.0030"]


def test_a_directory_that_exists_is_left_alone(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["demo", "--keep", str(tmp_path)])
    assert done.exit_code == 1
    assert "exists" in done.stderr


def test_a_shrunk_picture_is_a_png_of_averages() -> None:
    rows = draw(7, size=32)
    small = shrink(rows, by=4)
    assert (len(small), len(small[0])) == (8, 24)
    corner = [row[x * 3] for row in rows[:4] for x in range(4)]
    assert small[0][0] == sum(corner) // 16
    file = png(small)
    assert file.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", file[16:24]) == (8, 8)
    size = struct.unpack(">I", file[33:37])[0]
    assert len(zlib.decompress(file[41 : 41 + size])) == 8 * (1 + 24)
