"""The rows of a take-over: how an outbox is filled, and what must be true of every row at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncpg

    from tests.crash.takeover import Verdict

# Of a thousand rows 900 are done, 20 have failed, 9 are held by the dead, 1 has a status that is none, 70 wait.
FILL: Final = """
with row as materialized (
    select gen_random_uuid() as id, gen_random_uuid() as item_id, n, (n * 7919) % 1000 as place
      from generate_series(1, $1::integer) as n
), item as (
    insert into vault.items (id, owner_id, kind, content, status, enrichment)
    select item_id, id, 'note', 'x', case when place < 900 then 'READY_TO_CONFIRM' else 'ENRICHING' end,
           case when place < 900 then '{}'::jsonb end
      from row
)
insert into vault.enrichment_outbox (id, item_id, status, attempt_count, claimed_at, last_error, created_at)
select id, item_id,
       case when place < 900 then 'DONE' when place < 920 then 'FAILED' when place < 929 then 'IN_PROGRESS'
            when place < 930 then 'BANANA' else 'PENDING' end,
       case when place < 900 then 0 when place < 920 then 3 else 0 end,
       case when place < 929 then now() - interval '1 hour' end, case when place between 900 and 919 then 'boom' end,
       now() - interval '1 day' - n * interval '1 second'
  from row
"""
STATUSES: Final = "case l.status when 'DONE' then 'completed' when 'FAILED' then 'failed' end"


async def fill(owner: asyncpg.Connection[Any], rows: int) -> None:
    """An outbox with *rows* rows in every state; what it held is written down beside it."""
    await owner.execute(FILL.replace("$1::integer", str(int(rows))))
    await owner.execute("create table public.effects (item_id uuid not null, made_by text not null)")
    await owner.execute(
        "create table public.ledger as "
        "select id, item_id, status, attempt_count, created_at from vault.enrichment_outbox"
    )
    await owner.execute("create index on public.ledger (id)")
    await owner.execute("vacuum analyze")


async def check_jobs(owner: asyncpg.Connection[Any], verdict: Verdict) -> None:
    """After the last way up, when everything has ended: one job or one quarantined row for each row that ever was."""
    count = owner.fetchval
    verdict.came = await count("select count(*) from public.ledger") - verdict.rows
    verdict.quarantined = await count("select count(*) from vault.outbox_quarantine")
    verdict.made_by = dict(await owner.fetch("select made_by, count(*) from public.effects group by 1"))
    verdict.lost += await count(
        "select count(*) from public.ledger l where not exists (select from penstock.jobs j where j.job_id = l.id) "
        "and not exists (select from vault.outbox_quarantine q where q.row ->> 'id' = l.id::text)"
    )
    verdict.lost += await count(
        "select count(*) from public.ledger l join vault.items i on i.id = l.item_id "
        "where l.status in ('PENDING', 'IN_PROGRESS') and i.status <> 'READY_TO_CONFIRM'"
    )
    verdict.doubled += await count(
        "select count(*) from (select from public.effects group by item_id having count(*) > 1) as twice"
    )
    verdict.doubled += max(
        0,
        await count("select (select count(*) from penstock.jobs) + (select count(*) from vault.outbox_quarantine)")
        - await count("select count(*) from public.ledger"),
    )
    questions = {
        "history was changed": "select count(*) from public.ledger l join penstock.jobs j on j.job_id = l.id "
        f"where l.status in ('DONE', 'FAILED') and (j.status, j.attempt_count, j.created_at) "
        f"is distinct from ({STATUSES}, l.attempt_count, l.created_at)",
        "failed without its one dead letter": "select count(*) from penstock.jobs j where (j.status = 'failed') "
        "<> exists (select from penstock.dead_letters d where d.job_id = j.job_id)",
        "the audit ends elsewhere": "select count(*) from penstock.jobs j where j.status is distinct from (select "
        "e.to_status from penstock.job_events e where e.job_id = j.job_id order by e.event_id desc limit 1)",
        "a quarantined row has no problem": "select count(*) from vault.outbox_quarantine where problem = ''",
    }
    for problem, question in questions.items():
        if found := await count(question):
            verdict.problems.append(f"{found} times {problem}")


async def check_table(owner: asyncpg.Connection[Any], verdict: Verdict) -> None:
    """After the way back: the table holds every row that ever was, once."""
    table = "vault.enrichment_outbox"
    verdict.lost += await owner.fetchval(
        f"select count(*) from public.ledger l where not exists (select from {table} o where o.id = l.id)"
    )
    verdict.doubled += max(
        0,
        await owner.fetchval(f"select count(*) from {table}")
        - await owner.fetchval("select count(*) from public.ledger"),
    )
    changed = await owner.fetchval(
        f"select count(*) from public.ledger l join {table} o on o.id = l.id "
        "where l.status in ('DONE', 'FAILED', 'BANANA') "
        "and (o.status, o.attempt_count, o.created_at) is distinct from (l.status, l.attempt_count, l.created_at)"
    )
    if changed:
        verdict.problems.append(f"{changed} rows came back changed")
