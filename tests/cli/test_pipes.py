"""Output that nobody reads to its end."""

import os
import subprocess

import pytest

from tests.support.desk import Desk
from tests.support.processes import PATIENCE, environment, start_penstock


@pytest.mark.parametrize(
    ("arguments", "cold"),
    [(["jobs", "list"], True), (["jobs", "list", "--json"], False), (["jobs", "enqueue", "noop"], False)],
)
def test_a_command_whose_reader_has_gone_ends_without_a_word(desk: Desk, arguments: list[str], cold: bool) -> None:
    desk.sync_types()
    desk.put("noop")
    reading, writing = os.pipe()
    os.close(reading)
    with start_penstock(arguments, environment(desk.dsn), stdout=writing, stderr=subprocess.PIPE, cold=cold) as process:
        os.close(writing)
        assert process.stderr
        assert (process.stderr.read(), process.wait(PATIENCE)) == ("", 141)
