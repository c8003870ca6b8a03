"""The fixtures that users get, used as they would use them."""

import textwrap
from pathlib import Path

import pytest

from tests.support import clusters

pytest_plugins = ["pytester"]

USERS_TEST = """
    from penstock import Penstock

    app = Penstock("postgresql://production.invalid/never")

    @app.job("greet")
    async def greet(args: dict) -> None:
        if args["n"] > 1:
            raise RuntimeError("no more than one")

    async def test_a_greeting_is_sent(penstock_harness):
        async with penstock_harness(app) as h:
            job_id = await h.enqueue("greet", {"n": 1})
            await h.drain()
            assert await h.status(job_id) == "completed"

    async def test_every_test_has_a_database_of_its_own(penstock_harness):
        async with penstock_harness(app) as h:
            await h.enqueued("greet", count=0)
            await h.enqueue("greet", {"n": 2})
            await h.work_until_idle()
            assert len(await h.dead_letters()) == 1
"""


@pytest.mark.long
def test_users_get_a_fresh_database_and_a_harness_for_each_test(
    pytester: pytest.Pytester, database: clusters.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_DSN", database.server.superuser_url("postgres"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # all others would cost seconds to load
    pytester.makeini("[pytest]\nasyncio_mode = auto\n")
    pytester.makeconftest('pytest_plugins = ["penstock.testing.pytest_plugin"]')
    Path(pytester.path, "test_users.py").write_text(textwrap.dedent(USERS_TEST))
    ran = pytester.runpytest_subprocess("-q", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider")
    ran.assert_outcomes(passed=2)
