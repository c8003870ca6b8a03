"""A repository's own settings can start programs; none of them starts here."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from penstock import Failed, FailureClass
from penstock.apps.review.sources.git import GitSource
from tests.apps.review.sources.repositories import bare, git, put

HISTORY = (
    b"commit refs/heads/main\nmark :1\ncommitter A <a@b.c> 1 +0000\ndata 1\nx\n"
    + put("a.py", b"one\n")
    + b"\ncommit refs/heads/main\ncommitter A <a@b.c> 2 +0000\ndata 1\ny\nfrom :1\n"
    + put("a.py", b"two\n")
    + b"\n"
)

SETTINGS = """
[core]
    fsmonitor = {trap}
    pager = {trap}
    sshCommand = {trap}
    editor = {trap}
    askPass = {trap}
    alternateRefsCommand = {trap}
[diff]
    external = {trap}
[diff "trap"]
    command = {trap}
    textconv = {trap}
[filter "trap"]
    clean = {trap}
    smudge = {trap}
    process = {trap}
[gpg]
    program = {trap}
[log]
    showSignature = true
[pager]
    diff-tree = {trap}
[credential]
    helper = {trap}
[alias]
    diff-tree = !{trap}
"""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a trace when it is started."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def repository(tmp_path: Path, trap: Path) -> Path:
    """A working tree whose settings name the trap wherever a program can stand."""
    tree = tmp_path / "tree"
    git(tmp_path, "clone", "--quiet", str(bare(tmp_path / "shop.git", HISTORY)), str(tree))
    with (tree / ".git" / "config").open("a") as settings:
        settings.write(SETTINGS.format(trap=trap))
    (tree / ".git" / "info" / "attributes").write_text("* diff=trap filter=trap\n")
    hooks = tree / ".git" / "hooks"
    for name in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (hooks / name).write_text(trap.read_text())
        (hooks / name).chmod(0o755)
    return tree


def is_sprung(trap: Path) -> bool:
    return (trap.parent / "sprung").exists()


def difference(repository: Path) -> None:
    with suppress(subprocess.CalledProcessError):
        git(repository, "diff", "HEAD~1", "HEAD")


async def test_no_program_that_a_repository_names_is_started(repository: Path, trap: Path) -> None:
    source = GitSource("shop", repository)
    fetched = [await source.fetch(ref, max_bytes=10_000) for ref in ("HEAD", "HEAD~1", "HEAD~1..HEAD", "HEAD~1...HEAD")]
    assert all(b"+two" in found.raw or b"+one" in found.raw for found in fetched)
    assert not is_sprung(trap)
    difference(repository)
    assert is_sprung(trap), "the trap itself is broken"


async def test_no_program_that_the_environment_names_is_started(
    repository: Path, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "PAGER", "GIT_SSH_COMMAND", "GIT_ASKPASS"):
        monkeypatch.setenv(name, str(trap))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    assert b"+two" in (await GitSource("shop", repository).fetch("HEAD", max_bytes=10_000)).raw
    assert not is_sprung(trap)


async def test_an_object_that_is_promised_from_elsewhere_is_not_fetched(tmp_path: Path, trap: Path) -> None:
    origin = bare(tmp_path / "origin.git", HISTORY)
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:none", f"file://{origin}", "partial")
    git(tmp_path / "partial", "config", "remote.origin.uploadpack", str(trap))
    with pytest.raises(Failed) as failed:
        await GitSource("shop", tmp_path / "partial").fetch("HEAD", max_bytes=10_000)
    assert failed.value.error_class is FailureClass.UPSTREAM_5XX
    assert not is_sprung(trap)
    difference(tmp_path / "partial")
    assert is_sprung(trap), "the trap itself is broken"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory away")
async def test_a_repository_of_another_owner_is_read(repository: Path) -> None:
    for directory, _, files in os.walk(repository):
        for path in (directory, *(f"{directory}/{name}" for name in files)):
            os.chown(path, 12_345, 12_345)
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "rev-parse", "HEAD")
    assert b"+two" in (await GitSource("shop", repository).fetch("HEAD", max_bytes=10_000)).raw
