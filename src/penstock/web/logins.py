"""How the API logs in: one pool for each scope, as the role of that scope and nobody else.

A scope without a login is switched off: its routes answer 503, the others work.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import PenstockError, SchemaOutdated, SettingsInvalid
from penstock.settings import PREFIX
from penstock.store import connect, logins, schema
from penstock.store.api_keys import ROLES, Scope
from penstock.store.lines import lines
from penstock.web.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from penstock.store.connect import Pool, Pooled
    from penstock.store.lines import Line

ASKED_WITHIN: Final = 3.0  # seconds; who asks whether we are ready will not wait longer
ANSWER_WITHIN: Final = 15.0  # seconds; a connection that is out for longer is cut, as its server is silent
POOL: Final = 5  # connections of each scope; one is enough for a stream to read now and then


class State(StrEnum):
    """What `/readyz` says of a login."""

    READY = "ready"
    SWITCHED_OFF = "switched_off"
    DATABASE_AWAY = "database_away"
    SCHEMA_OUTDATED = "schema_outdated"
    LOGIN_REFUSED = "login_refused"


def setting_of(scope: Scope) -> str:
    """The variable that names the login of *scope*."""
    return f"{PREFIX}WEB_{scope.upper()}_DSN"


class Logins:
    """The DSN of each scope, and the pools on them while it is open."""

    def __init__(self, dsns: Mapping[Scope, str], *, insecure: bool = False, prepared: bool = True) -> None:
        if not dsns:
            variables = ", ".join(setting_of(scope) for scope in Scope)
            raise SettingsInvalid(f"there is no login for any route; set one or more of {variables}")
        self.dsns = dict(dsns)
        self._insecure = insecure
        self._prepared = prepared
        self._pools: dict[Scope, Pool] = {}

    async def open(self) -> None:
        """Connect and look at every login; one that is unsafe, or a schema that does not fit, is refused.

        What is open stays as it is.
        """
        try:
            for scope, dsn in () if self._pools else self.dsns.items():
                self._pools[scope] = await connect.create_pool(
                    dsn, size=POOL, name=f"penstock web {scope}", prepared=self._prepared, answer_within=ANSWER_WITHIN
                )
                await self._look(scope)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect; statements under way are given a moment."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            try:
                async with asyncio.timeout(ASKED_WITHIN):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def pool(self, scope: Scope) -> Pool:
        """The pool of *scope*; without a login the request is refused."""
        if scope not in self._pools:
            raise Refused("switched_off")
        return self._pools[scope]

    async def states(self) -> dict[Scope, State]:
        """What each login is good for at this moment."""
        found = await asyncio.gather(*(self._state(scope) for scope in Scope))
        return dict(zip(Scope, found, strict=True))

    async def _state(self, scope: Scope) -> State:
        if scope not in self._pools:
            return State.SWITCHED_OFF
        try:
            async with asyncio.timeout(ASKED_WITHIN + 0.5):  # for a full pool; a silent connection is cut before it
                await self._look(scope)
        except SchemaOutdated:
            return State.SCHEMA_OUTDATED
        except connect.AWAY:
            return State.DATABASE_AWAY
        except PenstockError:
            return State.LOGIN_REFUSED
        return State.READY

    async def _look(self, scope: Scope) -> None:
        """Look with a connection that is cut when it does not answer: to cancel a statement, a server must answer."""
        async with self._pools[scope].acquire() as connection:
            cutting = asyncio.get_running_loop().call_later(ASKED_WITHIN, connection.terminate)
            try:
                await self._look_through(connection, scope)
            finally:
                cutting.cancel()

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        """The lines of this installation, found once: every package on the path is asked for them."""
        return lines()

    async def _look_through(self, connection: Pooled, scope: Scope) -> None:
        for line in self._lines:
            await schema.require_current(connection, line)
        if not self._insecure:
            schemas = [line.schema for line in self._lines]
            await logins.require_role(connection, ROLES[scope], schemas=schemas, setting=setting_of(scope))
