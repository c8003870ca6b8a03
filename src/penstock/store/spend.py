"""What calls to models cost, by day, type, model and pair of languages; and the cap that stops a type (C-64)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from penstock.contract.policies import CONTROL_CHANNEL
from penstock.contract.prices import Prices
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    import asyncpg

    from penstock.contract.calls import Execution, Route, Usage
    from penstock.contract.policies import Policy
    from penstock.store.claims import Db

PARTS: Final = ("day", "type", "model", "pair", "execution")
NO_PRICES: Final = Prices()


async def record(
    db: Db,
    job_type: str,
    route: Route,
    usage: Usage,
    execution: Execution,
    *,
    prices: Prices = NO_PRICES,
    cap: int | None = None,
) -> bool:
    """Add one call to the spend of the day; True when that has paused its type.

    *cap* is the daily cap in millionths. A model without a price costs
    nothing, and somebody is told.
    """
    cost = await priced(db, prices, route.provider, route.model, usage, execution, capped=cap is not None)
    places = route.source_locale, route.target_locale
    used = usage.input_tokens, usage.output_tokens
    return bool(await db.fetchval(sql("spend/add"), job_type, route.provider, route.model, *places, *used, cost, cap))


async def priced(
    db: Db, prices: Prices, provider: str, model: str, usage: Usage, execution: Execution, *, capped: bool
) -> int:
    """What *usage* cost, in millionths."""
    price = prices.of(provider, model)
    if price is not None:
        return price.micros(usage, execution)
    if prices.models or capped:  # without a table nobody asked for prices
        await note_unpriced(db, provider, model)
    return 0


async def note_unpriced(db: Db, provider: str, model: str) -> bool:
    """Alert that a model has no price, once; False when that has been said."""
    return await alert_once(db, "model_without_price", {"provider": provider, "model": model})


async def reopen(db: Db, policies: Collection[Policy]) -> list[str]:
    """Open the types again that their cap had paused, where today's spend is below it; returns which.

    A new day by UTC has room again, and so has a cap that was raised. What an
    operator has paused stays paused.
    """
    if not policies:
        return []
    names, caps = [p.job_type for p in policies], [p.cap_micros for p in policies]
    opened = [str(row["job_type"]) for row in await db.fetch(sql("spend/reopen"), names, caps)]
    if opened:
        await db.execute("select pg_notify($1, '{\"gates\": true}')", CONTROL_CHANNEL)
    return opened


async def report(
    db: Db, by: Collection[str], *, since: date | None = None, until: date | None = None, job_type: str | None = None
) -> list[asyncpg.Record]:
    """What was spent, summed up by any of PARTS."""
    return await db.fetch(sql("spend/report"), list(by), since, until, job_type)


async def alert_once(
    db: Db, kind: str, about: Mapping[str, object], more: Mapping[str, object] | None = None, severity: str = "alert"
) -> bool:
    """Raise an alert unless one of this kind *about* the same is still unseen; *more* is told beside it."""
    known = json.dumps(dict(about))
    subject = json.dumps({**about, **(more or {})})
    return await db.fetchval(sql("batch_items/alert"), kind, severity, subject, known) is not None
