"""Text is in its sealed columns, in memory, at the provider, and nowhere else, whatever goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.apps.rewrite.conftest import MakeWorld, Sent, World
from tests.apps.rewrite.rewriter import KINDLY
from tests.support.emulator import BATCH_SECONDS

Break = Callable[[World, pytest.MonkeyPatch], Any]


def fault(kind: str, **settings: Any) -> Break:
    """The provider fails so."""
    return lambda world, _: world.emulator.faults.add(kind, **settings)


def raising(place: str, name: str) -> Break:
    """Code of ours raises an error that quotes the message, as careless code does."""

    def broken(*args: Any, **_: Any) -> Any:
        texts = [str(getattr(arg, "rewrite_request", arg)) for arg in args]
        asked = [getattr(getattr(arg, "rewrite_request", None), "message_text", "") for arg in args]
        raise RuntimeError(f"cannot do {texts} {asked}")

    def apply(_world: World, patch: pytest.MonkeyPatch) -> None:
        from importlib import import_module

        patch.setattr(import_module(f"penstock.apps.rewrite.{place}"), name, broken)

    return apply


def in_the_database(table: str) -> Break:
    """A trigger raises an error that quotes the row."""

    async def apply(world: World) -> None:
        await world.owner.execute(
            "create function public.quoting() returns trigger language plpgsql as $$ begin "
            "raise exception 'refused: %', new::text; end $$; "
            f"create trigger quoting before insert on {table} for each row execute function quoting()"
        )

    return lambda world, _: apply(world)


FAILING: dict[str, Break] = {
    "nothing": lambda _world, _patch: None,
    "refusal": fault("refusal"),
    "wrong language": fault("wrong_language", sentence=KINDLY["de"]),
    "wrong schema": fault("wrong_schema"),
    "item error with a message": fault("item_error", status=400, message="bad input: canary-quoted"),
    "server error": fault("server_error", path="/(batches|responses)$", message="canary-quoted"),
    "unauthorized": fault("unauthorized", message="canary-quoted"),
    "broken json": fault("broken_json"),
    "expired": fault("expire", after=30, done=0),
    "missing": fault("missing"),
    "our own bug in build": raising("execution", "request_of"),
    "our own bug in accept": raising("execution", "judged"),
    "a trigger that quotes the output": in_the_database("rewrite.rewrite_outputs"),
}


@pytest.mark.contract("A-82", "L-66", "Q-81", "L-12", "C-52")
@pytest.mark.parametrize("mode", ["batch", "async"])
@pytest.mark.parametrize("broken", FAILING.values(), ids=FAILING)
async def test_no_text_is_in_any_log_table_alert_or_dead_letter(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, mode: str, broken: Break
) -> None:
    world: World = await make_world({"execution_mode": mode})
    home = await world.home("en", "es")
    await world.wish(home, blocked_terms=("canary-wished",))
    sent = await world.send(home)
    under_way = broken(world, monkeypatch)
    if under_way is not None and hasattr(under_way, "__await__"):
        await under_way
    await world.through()
    await world.pass_time(hours=1)
    await world.through()

    status = (await world.job(sent))["status"]
    assert mode == "async" or (status == "completed") is (broken is FAILING["nothing"])
    assert await world.leaks(sent.canary, sent.echo, "canary-wished", "canary-quoted", "cocina", "dishes") == []
    assert sent.canary not in generate_latest().decode()


@pytest.mark.contract("A-83", "L-67")
async def test_no_file_is_written_while_text_goes_out_and_comes_back(world: World) -> None:
    sents = [await world.send(await world.home("en", code)) for code in ("en", "es")]
    written: list[str] = []
    watching = True

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if (
            watching
            and event == "open"
            and isinstance(args[2], int)
            and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        ):
            written.append(str(args[0]))

    sys.addaudithook(hook)
    await world.run_submitter()
    await world.pass_time(seconds=BATCH_SECONDS)
    await world.run_collector()
    watching = False

    assert written == []
    assert [end[1] for end in await world.ends(*sents)] == ["completed", "completed"]


@pytest.mark.contract("A-83", "Q-41")
async def test_what_is_stored_of_a_text_is_sealed_and_stands_in_its_own_columns(world: World) -> None:
    sent: Sent = await world.send(await world.home("en", "es"))
    await world.through()

    assert await world.leaks(sent.canary, sent.echo, "kitchen is", "cocina") == []
    assert sent.canary not in (await world.job(sent))["routing_decision"]
    columns = await world.owner.fetch(
        "select table_name || '.' || column_name from information_schema.columns "
        "where table_schema = 'rewrite' and data_type = 'bytea' order by 1"
    )
    assert [row[0] for row in columns] == [
        "home_keys.wrapped_key", "preferences.blocked_terms", "recipient_preference_snapshots.blocked_terms",
        "rewrite_outputs.rewrite_response", "rewrite_requests.fingerprint", "rewrite_requests.rewrite_request",
    ]  # fmt: skip
