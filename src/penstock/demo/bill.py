"""The bill of the batch act: what went out, what came home, what it cost, and what the providers say about it."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from penstock.contract.calls import Execution, Usage
from penstock.contract.prices import MICROS, load_prices
from penstock.demo.stage import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.demo.stage import Stage

    Row = Mapping[str, Any]

ITEMS: Final = """
select b.provider, count(distinct b.batch_id) as submissions, count(*) as items,
       count(*) filter (where i.state = 'completed') as completed,
       count(*) filter (where i.state = 'retried') as retried,
       count(*) filter (where i.state = 'failed') as failed
  from penstock.batches b join penstock.batch_items i using (batch_id) group by b.provider order by b.provider desc
"""
SPENT: Final = """
select provider, model, execution, sum(calls)::bigint as calls, sum(input_tokens)::bigint as input_tokens,
       sum(output_tokens)::bigint as output_tokens, sum(cost_micros)::bigint as cost_micros
  from penstock.spend where job_type = 'answer' group by 1, 2, 3 order by execution desc, provider desc
"""
REPLIES: Final = """
select count(*) as replies, count(distinct ticket_id) as tickets,
       count(*) filter (where position('#' || ticket_id || ':' in reply) = 0) as foreign_ones,
       (select count(*) from penstock.jobs where job_type = 'answer' and status = 'failed') as failed
  from desk.replies
"""
TOKENS: Final = "select replace(batch_id::text, '-', '') as token from penstock.batches"


async def settle(stage: Stage, seen: Mapping[str, str], total: int) -> list[Check]:
    """Show the table, and count on both sides; *seen* is every batch that a provider ever had, with its token."""
    spent = await stage.owner.fetch(SPENT)
    created = Counter(seen.values())
    stage.view.console.print(_table(await stage.owner.fetch(ITEMS), spent, created))
    sent = [row["token"] for row in await stage.owner.fetch(TOKENS)]
    found = await stage.owner.fetchrow(REPLIES)
    assert found is not None  # noqa: S101 - a row of counts is always there
    return judged(sent, created, found, spent, total)


def judged(sent: Sequence[str], created: Counter[str], found: Row, spent: Sequence[Row], total: int) -> list[Check]:
    """The promises of the lane, beside what the database (*sent*, *found*, *spent*) and the providers say."""
    answered, failed, doubled = found["tickets"], found["failed"], found["replies"] - found["tickets"]
    batch = [row for row in spent if row["execution"] == Execution.BATCH]
    cost, full = sum(row["cost_micros"] for row in batch), sum(map(_at_full_price, batch))
    return [
        Check("every submission is one batch at its provider", f"{len(sent)} submissions, {created.total()} batches",
              Counter(sent) == created and created.total() == len(created)),
        Check("every ticket is answered or a dead letter, none twice",
              f"{answered} answered, {failed} failed, of {total}; {doubled} twice",
              doubled == 0 and answered + failed == total),
        Check("no answer stands under another ticket", f"{found['foreign_ones']} do", found["foreign_ones"] == 0),
        Check("the batches cost half", f"{money(cost)} instead of {money(full)}",
              cost > 0 and abs(2 * cost - full) <= sum(row["calls"] for row in batch)),
    ]  # fmt: skip


def _table(items: Sequence[Row], spent: Sequence[Row], created: Counter[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("provider", "way"):
        table.add_column(name)
    for name in (
        "items",
        "completed",
        "tried again",
        "failed",
        "submissions",
        "batches for each",
        "cost",
        "async price",
    ):
        table.add_column(name, justify="right")
    counted = {row["provider"]: row for row in items}
    most = max(created.values(), default=0)
    for row in spent:
        table.add_row(row["provider"], row["execution"], *_counts(row, counted, most), *_costs(row))
    return table


def _counts(row: Row, counted: dict[str, Row], most: int) -> tuple[str, ...]:
    if row["execution"] == Execution.ASYNC:
        return str(row["calls"]), str(row["calls"]), "0", "0", "", ""
    of = counted[row["provider"]]
    return *(str(of[name]) for name in ("items", "completed", "retried", "failed", "submissions")), str(most)


def _costs(row: Row) -> tuple[str, str]:
    return money(row["cost_micros"]), money(_at_full_price(row))


def _at_full_price(row: Row) -> int:
    """What the same tokens would have cost one call at a time."""
    from penstock.demo.desk import app

    price = load_prices(app.settings.prices).of(row["provider"], row["model"])
    assert price is not None  # noqa: S101 - the desk prices every model it asks
    return price.micros(Usage(row["input_tokens"], row["output_tokens"]), Execution.ASYNC)


def money(micros: int) -> str:
    """An amount, to the hundredth of a cent."""
    return f"${Decimal(micros) / MICROS:.4f}"
