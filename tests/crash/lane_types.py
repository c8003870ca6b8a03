"""The batch types of the campaign. Every job carries a canary, and only an answer can bring it back.

`persist` stores what it reads in the answer, never what the job says, into a
table without any constraint: an output stored twice is two rows, and an answer
under a wrong job is a wrong canary.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock import Failed, FailureClass, Penstock, Schedule
from penstock.contract.calls import Request, Route
from penstock.contract.policies import Audit, Dispatch

if TYPE_CHECKING:
    from penstock.contract.calls import Answer
    from penstock.emulator import RemoteEmulator

TABLE: Final = (
    "create table if not exists public.lane_outputs (job_id uuid not null, claim_seq bigint not null, canary text)"
)
STORE: Final = "insert into public.lane_outputs (job_id, claim_seq, canary) values ($1, $2, $3)"
ATTEMPTS: Final = 500  # a kill before the intent uses one; no job of the campaign may die of kills
CANARY: Final = re.compile(r"canary-[0-9a-f]{16}")
KINDS: Final = ("openai_responses", "gemini_generate", "anthropic_messages")
STAGED: Final = "two_steps"
TYPES: Final = (*KINDS, STAGED)


def build_app(dsn: str, emulator: RemoteEmulator) -> Penstock:
    """One type per kind of adapter, and one whose two stages ask two providers."""
    keys: dict[str, Any] = {f"{provider}_api_key": "any-key" for provider in ("openai", "gemini", "anthropic")}
    app = Penstock(dsn, grace_seconds=5, pool_min=0, **keys)
    policy: dict[str, Any] = {
        "lease": timedelta(minutes=2),
        "max_runtime": timedelta(minutes=1),
        "attempts": ATTEMPTS,
        "backoff": Schedule([0]),
        "audit": Audit.FULL,
    }
    routes = {kind: route(kind, emulator) for kind in KINDS}
    for kind in KINDS:
        app.lane(kind, build=_asking(routes[kind]), accept=accept, persist=persist, **policy)
    staged = app.type(STAGED, stages=("draft", "polish"), dispatch=Dispatch.SCHEDULED, **policy)
    staged.lane("draft", build=_asking(routes["openai_responses"]), accept=accept)
    staged.lane("polish", build=_asking(routes["gemini_generate"], after="draft"), accept=accept, persist=persist)
    return app


def accept(_job: Any, args: dict[str, Any], answer: Answer) -> str:
    """The canary of the answer; nobody looks whether it is the job's own."""
    if args["fatal"]:
        raise Failed(FailureClass.NOT_FOUND)
    found = CANARY.search(answer.text)
    return found[0] if found else "no canary"


async def persist(job: Any, _args: Any, result: str, connection: Any) -> None:
    """Store it; nothing here would stop a second time."""
    await connection.execute(STORE, job.job_id, job.claim_seq, result)


def _asking(route: Route, after: str | None = None) -> Any:
    def build(job: Any, args: dict[str, Any]) -> Request:
        canary = args["canary"] if after is None else job.result(after)
        return Request(route, "Rewrite politely.", f"Your {canary} sings at night")

    return build


def route(kind: str, emulator: RemoteEmulator) -> Route:
    """The way to one kind of adapter at *emulator*."""
    provider = kind.partition("_")[0]
    return Route(provider, f"{provider}-small", kind, getattr(emulator, f"{provider}_base_url"))
