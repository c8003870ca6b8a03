"""Lines out and in: never held twice, never on a disk, never half."""

from __future__ import annotations

import io
import json
import tracemalloc

import pytest

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass as F
from penstock.providers import lines


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, -1])
def test_the_file_of_lines_reads_like_any_other(size: int) -> None:
    parts = [b"a", b"", b"long line", b"x" * 50]
    whole = b"".join(part + b"\n" for part in parts)
    file = lines.LineFile(parts)
    read = []
    while chunk := file.read(size):
        read.append(chunk)
    assert b"".join(read) == whole
    assert all(len(chunk) == size for chunk in read[:-1])


def test_it_can_be_measured_and_read_twice() -> None:
    file = lines.LineFile([b"ab", b"c"])
    assert file.seek(0, io.SEEK_END) == file.tell() == 5
    assert file.read() == b""
    file.seek(0)
    assert file.read() == b"ab\nc\n"
    file.seek(0)
    assert (file.read(2), file.tell(), file.seek(0, io.SEEK_CUR), file.seek(2)) == (b"ab", 2, 2, 2)
    with pytest.raises(io.UnsupportedOperation):
        file.seek(1)


@pytest.mark.contract("A-83")
async def test_a_large_artifact_is_held_once_and_parsed_line_by_line() -> None:
    line = json.dumps({"custom_id": "c", "text": "x" * 10_000}).encode() + b"\n"
    tracemalloc.start()
    artifact = bytearray()
    for _ in range(1000):
        artifact += line
    proven = await lines.proven(artifact, len(artifact), None)
    count = 0
    async for parsed in lines.objects(proven):
        count += len(parsed) == 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1000
    assert peak < 1.5 * len(artifact)


@pytest.mark.parametrize(
    "content", [b'{"a": 1}\n{"b"', b"<html>", b'{"a": 1}\n[1]\n', b"{}\n" + b"[" * 100_000, b"\xff\n"]
)
async def test_where_no_size_is_known_one_line_that_does_not_parse_refuses_them_all(content: bytes) -> None:
    with pytest.raises(Failed) as raised:
        await lines.proven(bytearray(content))
    assert raised.value.error_class is F.NETWORK_RESET


BROKEN = b'{"a": 1}\n{"b"\n[1]\n{"c": 3}\n{"d'


async def test_a_line_that_the_provider_itself_has_broken_is_nobodys_once_all_of_it_is_here() -> None:
    artifact = await lines.proven(bytearray(BROKEN), None, len(BROKEN))
    assert [line async for line in lines.objects(artifact)] == [{"a": 1}, {}, {}, {"c": 3}, {}]
    for sizes in ((len(BROKEN), len(BROKEN) + 1), (None,), ()):
        with pytest.raises(Failed):
            await lines.proven(bytearray(BROKEN), *sizes)


async def test_an_end_that_was_framed_proves_as_much_for_all_lines_but_the_last() -> None:
    middle = BROKEN.rpartition(b"\n")[0]
    artifact = await lines.proven(bytearray(middle), framed=True)
    assert [line async for line in lines.objects(artifact)] == [{"a": 1}, {}, {}, {"c": 3}]
    with pytest.raises(Failed):
        await lines.proven(bytearray(BROKEN), framed=True)
    with pytest.raises(Failed):
        await lines.proven(bytearray(middle), len(middle) + 1, framed=True)


async def test_blank_lines_and_a_missing_last_newline_are_fine() -> None:
    artifact = await lines.proven(bytearray(b'\n{"a": 1}\r\n\n{"b": "\\u2028"}'))
    assert [line async for line in lines.objects(artifact)] == [{"a": 1}, {"b": "\u2028"}]


def test_the_digest_is_of_what_is_said_and_not_of_its_order() -> None:
    assert lines.digest({"a": 1, "b": 2}) == lines.digest({"b": 2, "a": 1}) != lines.digest({"a": 1, "b": 3})
    assert lines.digest("\ud800") != lines.digest("x")


def test_what_has_no_form_in_utf8_cannot_be_sent() -> None:
    for bad in ("\ud800", float("nan")):
        with pytest.raises(Failed) as raised:
            lines.encode({"text": bad})
        assert raised.value.error_class is F.PAYLOAD_REJECTED
