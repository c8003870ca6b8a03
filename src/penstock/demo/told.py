"""Who is told about the reviews of the play, and what the closing table says about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.demo.stage import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from penstock.demo.shop import Commit
    from penstock.demo.stage import Stage
    from penstock.emulator import Emulator

TEAM: Final = "team"
ADA: Final = "ada@shop.example"
BEN: Final = "ben@shop.example"
FINDINGS: Final = (
    "select p.review_id, f ->> 'file' as file, (f ->> 'line')::integer as line"
    " from review.parts p cross join jsonb_array_elements(p.findings) as f"
)
ROWS: Final = """
select count(*) as rows, count(*) filter (where status = 'sent' and notified_at is not null) as told,
       count(*) filter (where provider_confirmed_at is not null or notification_id is not null) as proven
  from review.deliveries
"""
WHERE_NO_ADDRESS_IS: Final = ("jobs", "job_stages", "dead_letters", "effects", "alerts")
PRIVATE: Final = (ADA, BEN, "/webhook/", "not-a-real-key")  # addresses, and a line of code


def recipients(emulator: Emulator, *others: str) -> list[dict[str, Any]]:
    """Three that are always told; *others* are receivers of webhooks too."""
    webhooks = [{"channel": "webhook", "address": emulator.webhook_url(name)} for name in (TEAM, *others)]
    return [*webhooks, {"channel": "smtp", "address": ADA}, {"channel": "resend", "address": BEN}]


async def judge(
    stage: Stage, emulator: Emulator, commits: Sequence[Commit], asked: Mapping[UUID, Commit]
) -> list[Check]:
    """What the receivers have, what the log of deliveries says, and what no other table may hold."""
    wanted = len(commits) * len(recipients(emulator)) + 1
    got = emulator.deliveries.by_token()
    mails = len(emulator.deliveries.by_token("resend"))
    posts = sum(call.provider == "resend" and call.method == "POST" for call in emulator.calls)
    row = await stage.owner.fetchrow(ROWS)
    assert row is not None  # noqa: S101 - a row of counts is always there
    found, outside = await _findings(stage, asked)
    private = await _private(stage)
    return [
        Check("everybody is told, nobody twice", f"{sum(got.values())} messages, {len(got)} different, of {wanted}",
              len(got) == sum(got.values()) == wanted),
        Check("a mail whose reply was lost is not doubled", f"{posts} requests, {mails} mails",
              (posts, mails) == (len(commits) + 1, len(commits))),
        Check("the log knows every delivery with the provider's id", f"{row['proven']} of {row['rows']}",
              row["told"] == row["proven"] == row["rows"] == wanted),
        Check("every finding is at a line of its change", f"{found} findings, {outside} elsewhere",
              found > 0 and outside == 0),
        Check("no address and no code is in the tables of the engine or in a log", f"{private} found",
              private == 0),
    ]  # fmt: skip


async def _findings(stage: Stage, asked: Mapping[UUID, Commit]) -> tuple[int, int]:
    rows = await stage.owner.fetch(FINDINGS)
    outside = sum(row["line"] > _length(asked[row["review_id"]], row["file"]) for row in rows)
    return len(rows), outside


def _length(commit: Commit, file: str) -> int:
    """How many lines the file has behind this commit; none if it does not change it."""
    return commit.files.get(file, b"").count(b"\n")


async def _private(stage: Stage) -> int:
    """How often an address or code stands where it must not: in a table of the engine, or in the log."""
    found = sum(stage.log.read_text().count(word) for word in PRIVATE)
    for table in WHERE_NO_ADDRESS_IS:
        found += await stage.owner.fetchval(
            f"select count(*) from penstock.{table} as t"  # noqa: S608 - our own words
            " where exists (select from unnest($1::text[]) as word where strpos(to_jsonb(t)::text, word) > 0)",
            PRIVATE,
        )
    return found
