"""Output that nobody reads to its end."""

import os
import subprocess
import sys

import pytest

from tests.support.desk import Desk
from tests.support.processes import ROOT, environment


@pytest.mark.parametrize("arguments", [["jobs", "list"], ["jobs", "list", "--json"], ["jobs", "enqueue", "noop"]])
def test_a_command_whose_reader_has_gone_ends_without_a_word(desk: Desk, arguments: list[str]) -> None:
    desk.sync_types()
    desk.put("noop")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        cwd=ROOT, env=environment(desk.dsn, None), stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
