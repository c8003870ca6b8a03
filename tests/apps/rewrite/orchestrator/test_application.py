"""The application by its name: found by the commands, built from the environment, refused where it cannot work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from penstock.apps.rewrite import Rewrites, application, rewrite_app
from penstock.apps.rewrite.keyring import new_key
from penstock.contract.errors import SettingsInvalid
from penstock.engine.locate import find_app
from penstock.settings import load_settings
from penstock.store.roles import WORKER
from tests.apps.rewrite.conftest import World
from tests.support.processes import run_penstock

NAME = "penstock.apps.rewrite:app"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """The application of this process is built anew."""
    application.rewrites.cache_clear()
    yield
    application.rewrites.cache_clear()


@pytest.mark.contract("C-24", "Q-45", "Q-46")
def test_the_commands_find_it_by_name_with_its_two_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEXT_KEYS", new_key("k1"))
    found = find_app(NAME)

    assert found is find_app(NAME)
    cadences = {function.name: function.cadence for function in found.functions}
    for name, minutes in (("rewrite_batch_submitter", 15), ("rewrite_batch_collector", 30)):
        cadence = cadences[name]
        assert cadence is not None
        assert cadence.every == timedelta(minutes=minutes)


def test_without_a_key_for_texts_it_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_TEXT_KEYS", raising=False)
    with pytest.raises(SettingsInvalid, match="PENSTOCK_TEXT_KEYS"):
        find_app(NAME)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("rewrite_routes", "{}"),
        ("rewrite_routes", "/nowhere/routes.json"),
        ("rewrite_languages", "english"),
        ("rewrite_classifier", "oracle"),
        ("rewrite_classifier_model", "gpt-5-mini"),
        ("rewrite_reveal_delay_seconds", "-1"),
        ("rewrite_attempts", "0"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_before_anything_starts(setting: str, value: str) -> None:
    with pytest.raises(SettingsInvalid):
        rewrite_app(load_settings(text_keys=new_key("k1"), **{setting: value}))


def test_the_classifier_is_chosen_by_the_settings() -> None:
    rules = rewrite_app(text_keys=new_key("k1"), rewrite_languages="en,de")
    model = rewrite_app(text_keys=new_key("k1"), rewrite_classifier="llm", openai_api_key="any")
    assert [type(found.classifier).__name__ for found in (rules, model)] == ["RuleClassifier", "LlmClassifier"]


def test_importing_it_loads_neither_models_nor_ciphers() -> None:
    code = (
        "import sys, penstock.apps.rewrite; "
        "print([m for m in ('lingua', 'cryptography', 'langcodes') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.contract("C-57")
async def test_penstock_run_calls_its_functions_under_the_workers_login(
    world: World, role_dsn: Callable[[str], str]
) -> None:
    sent = await world.send(await world.home())
    settings = world.worker.app.settings
    env = {
        "PENSTOCK_APP": NAME, "PENSTOCK_OPENAI_API_KEY": "any",
        "PENSTOCK_TEXT_KEYS": settings.text_keys.get_secret_value() if settings.text_keys else "",
        "PENSTOCK_REWRITE_ROUTES": settings.rewrite_routes or "",
    }  # fmt: skip
    command = ["run", "rewrite_batch_submitter"]
    done = await asyncio.to_thread(run_penstock, command, role_dsn(WORKER), env=env)

    assert done.returncode == 0, done.stderr
    assert await world.ends(sent) == [("batch_submitted", "queued", None)]
    assert sent.canary not in done.stdout + done.stderr


async def test_each_event_loop_has_connections_of_its_own_and_gives_them_back(world: World) -> None:
    made: Rewrites = world.worker
    async with made.in_home((await world.home()).home_id) as connection:
        assert await connection.fetchval("select count(*) from rewrite.rewrite_jobs") == 0
    await made.disconnect()
    busy = "select count(*) from pg_stat_activity where application_name = 'penstock rewrite' and usename = $1"
    assert await world.owner.fetchval(f"{busy} and datname = current_database()", WORKER) == 0


@pytest.mark.parametrize("routes", ["mysql://user:s3cr3t@host/db", '{"default": "s3cr3t"}', "[" * 9000 + "s3cr3t"])
def test_a_table_of_routes_that_is_refused_is_not_repeated(routes: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        rewrite_app(text_keys=new_key("k1"), rewrite_routes=routes)
    assert "s3cr3t" not in str(caught.value)
