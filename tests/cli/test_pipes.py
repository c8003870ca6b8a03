"""Output that nobody reads to its end, or that cannot be written."""

import os
import subprocess
from pathlib import Path

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


@pytest.mark.parametrize("arguments", [["jobs", "list"], ["jobs", "list", "--json"], ["--version"]])
def test_output_that_cannot_be_written_is_told_as_that_and_not_blamed_on_the_database(
    desk: Desk, arguments: list[str]
) -> None:
    with (
        Path("/dev/full").open("w") as full,
        start_penstock(arguments, environment(desk.dsn), stdout=full.fileno(), stderr=subprocess.PIPE) as process,
    ):
        assert process.stderr
        said, code = process.stderr.read(), process.wait(PATIENCE)
    assert (code, said.startswith("The output cannot be written: No space left on device.")) == (1, True), said
    assert said.count("\n") == 1
