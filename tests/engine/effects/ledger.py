"""What the ledger of effects says, and a type that makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import Schedule

if TYPE_CHECKING:
    from penstock import Penstock
    from tests.engine.effects.conftest import Outside


async def effects(app: Penstock) -> list[tuple[str, int]]:
    """State and number of tries of every effect."""
    rows = await app.pool.fetch("select state, perform_count from penstock.effects order by effect_key")
    return [tuple(row) for row in rows]


async def tries(app: Penstock) -> list[tuple[str, str]]:
    """Every row of the tries, in order."""
    rows = await app.pool.fetch("select action, outcome from penstock.effect_attempts order by attempt_id")
    return [tuple(row) for row in rows]


def mailing(
    app: Penstock, outside: Outside, *, key: str | None = None, settles: bool = True, **policy: Any
) -> list[Any]:
    """A type whose handler has one effect; returns the list of its results."""
    results: list[Any] = []

    @app.job("mail", **{"backoff": Schedule([0]), **policy})
    async def mail(job: Any, args: Any) -> None:
        settle = outside.settle if settles else None
        results.append(await job.effect("send", key=key, perform=outside.perform, settle=settle))

    return results
