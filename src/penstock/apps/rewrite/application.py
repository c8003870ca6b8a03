"""The application: one `Penstock` with the type `complaint_rewrite`, and what its two sides need beside it.

The side that takes messages logs in as penstock_orchestrator, the side that
executes as penstock_worker. Each builds its own `Rewrites` from the same
settings; neither can do the other's part, because the database does not let it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock.apps.rewrite import repository
from penstock.apps.rewrite.classifier import llm_classifier, rule_classifier
from penstock.apps.rewrite.execution import SCHEMA, Execution
from penstock.apps.rewrite.hydration import Unit
from penstock.apps.rewrite.keyring import Keyring
from penstock.apps.rewrite.locks import UnitLocks
from penstock.apps.rewrite.models import JOB_TYPE
from penstock.apps.rewrite.orchestrator import Orchestrator
from penstock.apps.rewrite.policy import LOG_IDS, SCHEDULE, policy_of
from penstock.apps.rewrite.router import load_table
from penstock.contract.calls import Execution as Mode
from penstock.contract.calls import Route
from penstock.engine.app import Penstock
from penstock.engine.own_connections import OwnPool, PerLoop
from penstock.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from penstock.apps.rewrite.classifier import Classifier
    from penstock.apps.rewrite.orchestrator import Output, Submitted
    from penstock.apps.rewrite.router import RoutingTable
    from penstock.store.connect import Pooled

READERS: Final = 4  # connections for reads of the application's own, beside the engine's


class Rewrites:
    """What both sides share: the engine, the keys, the classifier and the table of routes."""

    def __init__(self, app: Penstock, *, keyring: Keyring, classifier: Classifier, table: RoutingTable) -> None:
        self.app = app
        self.keyring = keyring
        self.classifier = classifier
        self.table = table
        self.orchestrator = Orchestrator(self)
        self.execution = Execution(self)
        self._connections = PerLoop(lambda: _Connections(app))
        app.on_close(self.disconnect)
        app.lane(
            JOB_TYPE,
            build=self.execution.build,
            accept=self.execution.accept,
            persist=self.execution.persist,
            around=self.execution.around,
            schema=SCHEMA,
            args=Unit,
            log_ids=LOG_IDS,
            schedule=SCHEDULE,
            **policy_of(app.settings),
        )

    async def submit_rewrite(self, **message: Any) -> Submitted:
        """Take one message; see `Orchestrator.submit_rewrite`."""
        return await self.orchestrator.submit_rewrite(**message)

    async def read_output(self, home_id: UUID, rewrite_request_id: UUID) -> Output | None:
        """What was rewritten, for whoever delivers it; see `Orchestrator.read_output`."""
        return await self.orchestrator.read_output(home_id, rewrite_request_id)

    @asynccontextmanager
    async def in_home(self, home_id: UUID) -> AsyncIterator[Pooled]:
        """A transaction that sees the rows of one home and no others."""
        async with self._connections.here.own.connection() as connection, connection.transaction():
            await repository.enter_home(connection, home_id)
            yield connection

    @property
    def locks(self) -> UnitLocks:
        """The locks of units whose call is under way."""
        return self._connections.here.locks

    async def disconnect(self) -> None:
        """Give the connections of this event loop back."""
        found = self._connections.forget()
        if found is not None:
            await found.close()


class _Connections:
    """The application's own connections in one event loop: a small pool, and one for locks."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self.own = OwnPool(app, size=READERS, name="penstock rewrite")
        self.locks = UnitLocks(self._direct)

    async def close(self) -> None:
        """Give all of them back."""
        await self.locks.close()
        await self.own.close()

    async def _direct(self) -> str:
        """A way past any pooler: a lock of a session needs a session."""
        return self._app.settings.listen_dsn or await self._app.dsn()


def rewrite_app(
    settings: Settings | None = None, *, classifier: Classifier | None = None, **overrides: Any
) -> Rewrites:
    """The application from *settings*, or from the environment with *overrides* before it.

    Refuses to begin without a key for texts, with a table of routes that does
    not hold together, and with a pace that cannot. A *classifier* of your own
    goes before the one that the settings name.
    """
    given = settings or load_settings(**overrides)
    app = Penstock(settings=given)
    keyring, table = Keyring.from_settings(given), load_table(given.rewrite_routes)
    return Rewrites(app, keyring=keyring, classifier=classifier or _classifier(app), table=table)


@cache
def rewrites() -> Rewrites:
    """The application of this process, built from the environment when first asked for."""
    return rewrite_app()


def _classifier(app: Penstock) -> Classifier:
    settings = app.settings
    rules = rule_classifier(settings.rewrite_languages or None)
    if settings.rewrite_classifier == "rules":
        return rules
    route = Route.to(settings.rewrite_classifier_model, execution=Mode.ASYNC, lane="classifier")
    return llm_classifier(app.adapters, route, rules)
