"""The end of the rewrite act: who sees what, where the words are, and what each lane came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from penstock.demo.bill import money
from penstock.demo.stage import Check
from penstock.store.roles import FRONTEND, WORKER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from penstock.apps.rewrite import Rewrites
    from penstock.demo.complaints import Complaint
    from penstock.demo.stage import Stage

LANES: Final = """
select r.lane, j.routing_decision ->> 'execution_mode' as way, count(*) as requests,
       count(*) filter (where r.status = 'completed') as completed,
       count(*) filter (where r.status = 'failed') as failed,
       coalesce(sum(e.attempt_count) filter (where r.status = 'completed'), 0)::bigint as retried,
       count(distinct r.source_locale || '-' || r.target_locale) as pairs
  from rewrite.rewrite_requests r join rewrite.rewrite_jobs j using (rewrite_request_id)
  join penstock.jobs e using (job_id) group by 1, 2 order by 1 desc, 2 desc
"""
COST: Final = """
select case when source_locale = target_locale then 'same_language' else 'cross_language' end as lane,
       execution as way, sum(cost_micros)::bigint as cost
  from penstock.spend where job_type = 'complaint_rewrite' group by 1, 2
"""
TABLES: Final = """
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname in ('penstock', 'rewrite') and c.relkind = 'r' order by 1
"""


async def judge(
    stage: Stage, rewrites: Rewrites, complaints: list[Complaint], requests: Mapping[UUID, Complaint]
) -> list[Check]:
    """Show what each lane came to, then try to see what one should not."""
    stage.view.console.print(_table(await stage.owner.fetch(LANES), await stage.owner.fetch(COST)))
    return [*await _strangers(stage, requests), *await _words(stage, complaints), await _own(rewrites, requests)]


async def _strangers(stage: Stage, requests: Mapping[UUID, Complaint]) -> list[Check]:
    """What a login sees of its own home, of the other one, and without any."""
    homes = {complaint.home.home_id for complaint in requests.values()}
    own = foreign = 0
    for role, rows in ((FRONTEND, "rewrite.status_public"), (WORKER, "rewrite.rewrite_outputs")):
        async with stage.logged_in(role) as connection:
            foreign += await connection.fetchval(f"select count(*) from {rows}")  # noqa: S608 - our own words
            for home in homes:
                async with connection.transaction():
                    await connection.execute("select set_config('penstock.home_id', $1, true)", str(home))
                    seen = await connection.fetch(f"select rewrite_request_id from {rows}")  # noqa: S608 - the same
                mine = {request for request, complaint in requests.items() if complaint.home.home_id == home}
                own += sum(row["rewrite_request_id"] in mine for row in seen)
                foreign += sum(row["rewrite_request_id"] not in mine for row in seen)
    return [Check("a login sees its own home and no other", f"{own} own rows, {foreign} foreign", own > 0 == foreign)]


async def _words(stage: Stage, complaints: list[Complaint]) -> list[Check]:
    """The messages and their rewrites, looked for in every table and in the log."""
    words = [text for complaint in complaints for text in (complaint.text, complaint.rewritten)]
    hits = 0
    for row in await stage.owner.fetch(TABLES):
        hits += await stage.owner.fetchval(
            # `offset 0`: else each row would be written out anew for every word
            f"select count(*) from (select r::text as said from {row['name']} as r offset 0) as r "  # noqa: S608 - from the catalogue
            "where exists (select from unnest($1::text[]) as w(text) where position(w.text in r.said) > 0)",
            words,
        )
    log = stage.log.read_text(errors="replace") if stage.log.exists() else ""
    logged = sum(text in log for text in words)
    found = f"{hits} in plain in the database, {logged} in the log"
    return [Check("no word of a message is stored in plain or logged", found, hits == logged == 0)]


async def _own(rewrites: Rewrites, requests: Mapping[UUID, Complaint]) -> Check:
    """Whoever delivers reads exactly what was written for this recipient."""
    right = missing = 0
    for request, complaint in requests.items():
        output = await rewrites.read_output(complaint.home.home_id, request)
        if output is None:
            missing += 1
        else:
            recipients = output.recipient_user_ids
            right += (output.rewritten_text, recipients) == (
                complaint.rewritten,
                (complaint.home.user_id(complaint.recipient),),
            )
    found = f"{right} right, {missing} missing"
    return Check("every output stands under its own request and recipient", found, right == len(requests) - 1)


def _table(lanes: list[Any], cost: list[Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("lane", "way"):
        table.add_column(name)
    for name in ("pairs", "requests", "rewritten", "failed", "tried again", "cost"):
        table.add_column(name, justify="right")
    spent = {(row["lane"], row["way"]): row["cost"] for row in cost}
    for row in lanes:
        counts = (str(row[name]) for name in ("pairs", "requests", "completed", "failed", "retried"))
        table.add_row(row["lane"], row["way"], *counts, money(spent.get((row["lane"], row["way"]), 0)))
    return table
