"""Changelists from real repositories by the real git, whatever kind of commit they are."""

from __future__ import annotations

import asyncio
import os
import select
from contextlib import suppress
from pathlib import Path

import pytest

from penstock import Failed, FailureClass
from penstock.apps.review import diff
from penstock.apps.review.changes import Changes
from penstock.apps.review.models import Fetched
from penstock.apps.review.sources import commands
from penstock.apps.review.sources.git import GitSource
from penstock.contract.classify import classify
from penstock.contract.errors import EnqueueRefused
from tests.apps.review.sources.repositories import bare, git, put, script

MOST = 200_000
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare(tmp_path_factory.mktemp("git") / "shop.git", script())


def commit_of(repository: Path, ref: str) -> str:
    return git(repository, "rev-parse", ref).decode().strip()


async def fetch(repository: Path, ref: str, most: int = MOST) -> Fetched:
    source = GitSource("shop", repository)
    return await source.fetch(source.checked(ref), max_bytes=most)


async def changes(repository: Path, ref: str) -> Changes:
    return diff.parse((await fetch(repository, ref)).raw)


async def refusal(repository: Path, ref: str, most: int = MOST) -> Failed:
    with pytest.raises(Failed) as failed:
        await fetch(repository, ref, most)
    return failed.value


def paths(found: Changes) -> list[str]:
    return [file.path for file in found.files]


# ----------------------------------------------------------------- what is fetched


async def test_a_commit_is_shown_against_its_parent_with_what_it_says_of_itself(shop: Path) -> None:
    fetched = await fetch(shop, "change")
    assert fetched.revision == commit_of(shop, "change")
    assert fetched.facts.base == commit_of(shop, "root")
    assert (fetched.facts.title, fetched.facts.author) == ("Grüße", "Ada Lovelace")
    (file,) = diff.parse(fetched.raw).files
    assert [line.number for line in file.hunks[0].lines if line.mark == "+"] == [2, 4]


async def test_a_root_commit_is_shown_against_nothing(shop: Path) -> None:
    fetched = await fetch(shop, "root")
    assert (fetched.facts.base, fetched.facts.title) == (EMPTY_TREE, "Begin")
    assert [(file.path, file.old_path) for file in diff.parse(fetched.raw).files] == [
        ("a.py", None),
        ("old name.txt", None),
    ]


async def test_a_merge_is_shown_against_its_first_parent(shop: Path) -> None:
    assert paths(await changes(shop, "merge")) == ["topic.py"]


async def test_a_range_is_what_differs_and_with_three_dots_what_was_added_since(shop: Path) -> None:
    assert paths(await changes(shop, "root..merge")) == ["a.py", "topic.py"]
    two, three = await changes(shop, "change..topic"), await changes(shop, "change...topic")
    assert (paths(two), paths(three)) == (["a.py", "topic.py"], ["topic.py"])


@pytest.mark.parametrize("name", ["change", "refs/heads/change", "merge~1", "merge^1", "merge~1^0"])
async def test_every_name_of_a_commit_leads_to_the_commit(shop: Path, name: str) -> None:
    assert (await fetch(shop, name)).revision == commit_of(shop, "change")


async def test_a_short_id_and_a_signed_tag_lead_to_the_commit_too(shop: Path) -> None:
    commit = commit_of(shop, "change")
    names = {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}
    git(shop, "tag", "--annotate", "--force", "-m", "first", "v1.0", commit, env=names)
    assert {(await fetch(shop, name)).revision for name in (commit[:9], "v1.0")} == {commit}


async def test_renames_binaries_modes_removals_and_submodules_are_what_they_are(shop: Path) -> None:
    (file,) = (await changes(shop, "renamed")).files
    assert (file.path, file.old_path) == ("new.txt", "old name.txt")
    kinds = {
        "moved": "renamed",
        "binary": "binary",
        "mode": "mode_only",
        "removed": "deleted",
        "submodule": "submodule",
    }
    for branch, reason in kinds.items():
        found = await changes(shop, branch)
        assert (found.files, [skipped.reason for skipped in found.skipped]) == ((), [reason])


async def test_odd_names_ends_of_lines_and_encodings_arrive(shop: Path) -> None:
    found = await changes(shop, "odd")
    assert paths(found) == ["crlf.txt", "latin.txt", 'ä "q"�.txt']
    crlf, latin = (file.hunks[0].lines for file in found.files[:2])
    assert [line.text for line in crlf] == ["a\r", "b\r"]
    assert [line.text for line in latin] == ["caf�", "end", " No newline at end of file"]
    assert diff.restore(found.text) == found


async def test_a_repository_with_a_working_tree_and_one_behind_a_file_are_read_alike(
    shop: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--shared", "--branch", "change", str(shop), str(clone))
    (clone / "a.py").write_text("not committed\n")
    behind = tmp_path / "behind"
    behind.mkdir()
    (behind / ".git").write_text(f"gitdir: {shop}\n")
    expected = (await fetch(shop, "change")).raw
    assert [(await fetch(path, "change")).raw for path in (clone, behind)] == [expected, expected]


async def test_a_repository_of_longer_ids_is_read_alike(tmp_path: Path) -> None:
    text = b"commit refs/heads/main\ncommitter A <a@b.c> 1 +0000\ndata 1\nx\n" + put("f", b"1\n")
    fetched = await fetch(bare(tmp_path / "new", text, "--object-format=sha256"), "main")
    assert (len(fetched.revision), paths(diff.parse(fetched.raw))) == (64, ["f"])


# ------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "ref",
    [
        "", " ", "-", "--output=x", "--upload-pack=x", "-c", "..", "a..", "..b", "a....b", "a..--b", "a...-b", "a b",
        "main:a.py", ":/fix", "@{-1}", "main^{/x}", "main@{1}", ".git", "/etc", "../x", "a..b..c", "a\n-b", "a\x00b",
        "*", "x" * 300,
    ],
)  # fmt: skip
def test_nothing_passes_for_a_ref_that_could_be_an_option_a_path_or_an_expression(ref: str) -> None:
    with pytest.raises(EnqueueRefused, match="no ref of source 'shop'") as refused:
        GitSource("shop", Path("/nowhere")).checked(ref)
    assert len(ref.strip()) < 4 or ref not in str(refused.value)


@pytest.mark.contract("E-09")
@pytest.mark.parametrize("ref", ["nowhere", "0" * 40, "f" * 40, "root..nowhere", "nowhere...root", "a.py", "root~7"])
async def test_a_commit_that_is_not_there_is_final(shop: Path, ref: str) -> None:
    failed = await refusal(shop, ref)
    assert failed.error_class is FailureClass.NOT_FOUND
    assert not classify(failed, idempotent=True).retryable


@pytest.mark.contract("E-09")
async def test_a_repository_that_is_not_there_is_final(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        failed = await refusal(path, "main")
        assert failed.error_class is FailureClass.NOT_FOUND
        assert str(tmp_path) not in str(failed)


@pytest.mark.contract("E-07")
async def test_a_repository_that_may_not_be_read_is_final(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    failed = await refusal(shop, "root")
    assert failed.error_class is FailureClass.AUTH_DENIED
    assert not classify(failed, idempotent=True).retryable


async def test_two_commits_without_a_common_ancestor_have_no_three_dots(shop: Path) -> None:
    assert (await refusal(shop, "root...unrelated")).error_class is FailureClass.NOT_FOUND
    assert paths(await changes(shop, "root..unrelated")) == ["else.py"]


async def test_a_clone_without_the_parent_is_told_from_a_root_commit(shop: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", "--depth=1", "--branch=change", f"file://{shop}", "shallow")
    assert (await refusal(tmp_path / "shallow", "HEAD")).error_class is FailureClass.NOT_FOUND


@pytest.mark.contract("E-06")
async def test_an_empty_commit_changes_nothing(shop: Path) -> None:
    with pytest.raises(Failed, match="changes nothing") as failed:
        await changes(shop, "empty")
    assert failed.value.error_class is FailureClass.PAYLOAD_REJECTED


@pytest.mark.contract("E-06")
async def test_a_difference_of_ten_megabytes_is_refused_for_good(shop: Path) -> None:
    failed = await refusal(shop, "large", 2_000_000)
    assert failed.error_class is FailureClass.PAYLOAD_REJECTED
    assert "2,000,000 bytes" in failed.why
    assert not classify(failed, idempotent=True).retryable


async def test_a_difference_of_exactly_the_limit_is_taken(shop: Path) -> None:
    size = len((await fetch(shop, "change")).raw)
    assert len((await fetch(shop, "change", size)).raw) == size
    assert (await refusal(shop, "change", size - 1)).error_class is FailureClass.PAYLOAD_REJECTED


# ------------------------------------------------------------- programs that do not end


def stand_in(directory: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Another program in git's place."""
    program = directory / "git"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")


def is_gone(pid: int) -> bool:
    """Whether it has ended, or does so within seconds of having been told."""
    try:
        ending = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([ending], [], [], 5)[0])
    finally:
        os.close(ending)


def started_in(directory: Path) -> list[int]:
    """The processes that have *directory* in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if bytes(directory) in entry.read_bytes():
                found.append(int(entry.parent.name))
    return [pid for pid in found if pid != os.getpid()]


async def test_output_without_end_is_broken_off_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"echo $$ > {tmp_path}/pid; exec yes")
    with pytest.raises(Failed) as failed:
        await commands.run(tmp_path, "diff-tree", most=1_000_000)
    assert failed.value.error_class is FailureClass.PAYLOAD_REJECTED
    assert is_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.contract("E-02")
async def test_a_git_that_hangs_is_ended_with_all_it_has_started_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "started")
    stand_in(tmp_path, monkeypatch, f"sleep 600 &\necho $! $$ > {tmp_path}/started; wait")
    limits = [asyncio.timeout(None)]
    monkeypatch.setattr(asyncio, "timeout", lambda _seconds: limits[0])
    fetching = asyncio.create_task(refusal(tmp_path, "main"))
    pids = (await asyncio.to_thread((tmp_path / "started").read_text)).split()
    limits[0].reschedule(asyncio.get_running_loop().time())
    failed = await fetching
    assert failed.error_class is FailureClass.NETWORK_TIMEOUT
    assert classify(failed).retryable
    assert all(is_gone(int(pid)) for pid in pids)


@pytest.mark.parametrize("moments", [1, 2, 3, 4, 6, 8])
async def test_a_fetch_that_is_cancelled_at_any_moment_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: int
) -> None:
    stand_in(tmp_path, monkeypatch, "sleep 600 & wait")
    fetching = asyncio.create_task(fetch(tmp_path, "main"))
    for _ in range(moments):
        await asyncio.sleep(0)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert all(is_gone(pid) for pid in started_in(tmp_path))


async def test_a_fetch_that_is_cancelled_while_git_works_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "started")
    stand_in(tmp_path, monkeypatch, f"echo $$ > {tmp_path}/started; exec sleep 600")
    fetching = asyncio.create_task(fetch(tmp_path, "main"))
    pid = int(await asyncio.to_thread((tmp_path / "started").read_text))
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert is_gone(pid)


async def test_a_machine_without_git_is_a_matter_of_its_set_up(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    failed = await refusal(shop, "root")
    assert failed.error_class is FailureClass.CONFIG_INVALID
    assert "not installed" in failed.why
