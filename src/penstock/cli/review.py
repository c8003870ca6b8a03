"""`penstock review`: ask for reviews of changelists, see how they stand and what was found.

Exit codes: 0 done, 1 refused by a rule (a rerun that is none, a recipient that
cannot be), 2 wrong usage, 3 no such review, 4 the database is away.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from penstock.cli.common import (
    ORCHESTRATOR,
    Json,
    Limit,
    database,
    find_dsn,
    print_facts,
    print_json,
    print_table,
    run,
    show,
)
from penstock.cli.exits import USAGE, fail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.apps.review.application import Reviews
    from penstock.apps.review.models import Review

app = typer.Typer(name="review", help="The review application: ask for reviews and read them.", no_args_is_help=True)

COLUMNS: Final = ("review_id", "changelist_id", "review_version", "label", "status", "stage", "created_at")
DELIVERIES: Final = (
    "channel",
    "address",
    "required",
    "status",
    "notified_at",
    "provider_confirmed_at",
    "last_error_code",
)
FINDINGS: Final = ("severity", "file", "line", "message")

ReviewId = Annotated[UUID, typer.Argument(metavar="REVIEW_ID", show_default=False)]


@app.command()
def create(
    changelist: Annotated[
        str, typer.Argument(metavar="SOURCE:REF", help="Such as shop:4f1c2aa or hub:17.", show_default=False)
    ],
    *,
    key: Annotated[str, typer.Option(help="Idempotency key: the same key is the same review.", show_default=False)],
    version: Annotated[int, typer.Option(min=1, max=2**31 - 1, help="The version of the review.")] = 1,
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="CHANNEL:ADDRESS", help="Tell somebody, such as smtp:dev@example.org; may be repeated."),
    ] = None,
    optional: Annotated[
        list[str] | None, typer.Option(metavar="CHANNEL:ADDRESS", help="Tell somebody whom the review can do without.")
    ] = None,
    rerun: Annotated[bool, typer.Option("--rerun", help="Make a higher version although one has succeeded.")] = False,
    label: Annotated[str | None, typer.Option(help="For display only, such as v4.")] = None,
    as_json: Json = False,
) -> None:
    """Ask for a review and print its id; what is there already is returned."""
    recipients = [*_recipients(to, required=True), *_recipients(optional, required=False)]

    async def make() -> tuple[Review, bool]:
        async with _reviews() as reviews:
            made = await reviews.create_review(
                idempotency_key=key,
                changelist_id=changelist,
                review_version=version,
                recipients=recipients,
                rerun=rerun,
                label=label,
            )
        return made.review, made.created

    review, created = run(make())
    if as_json:
        print_json(
            {"review_id": review.review_id, "job_id": review.job_id, "created": created, "status": review.status}
        )
        return
    typer.echo(str(review.review_id))
    if not created:
        typer.echo(f"It was there: version {review.review_version}, {review.status}.", err=True)


@app.command("show")
def show_review(review_id: ReviewId, *, as_json: Json = False) -> None:
    """Show one review: how it stands and who has been told."""
    review = run(_read(review_id))
    if as_json:
        print_json(review.model_dump(exclude={"findings"}) | {"findings": _count(review)})
        return
    facts = review.model_dump(exclude={"findings", "deliveries"})
    print_facts({**facts, "findings": _count(review)})
    typer.echo("\ndeliveries")
    print_table(review.deliveries, DELIVERIES)


@app.command("list")
def list_reviews(
    *,
    changelist: Annotated[str | None, typer.Option(metavar="SOURCE:REF", help="Only this changelist.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List reviews, the newest first."""

    async def read() -> list[Review]:
        from penstock.apps.review import statuses

        async with database(ORCHESTRATOR) as db:
            return await statuses.list_reviews(db, changelist, limit=limit)

    rows = [review.model_dump(exclude={"findings", "deliveries"}) for review in run(read())]
    show(rows, COLUMNS, as_json=as_json, empty="No reviews.")


@app.command()
def findings(review_id: ReviewId, *, as_json: Json = False) -> None:
    """Show what was found, by file and line; exit code 1 while it is not complete."""
    found = run(_read(review_id)).findings
    if found is None:
        fail(f"Review {review_id} has no findings yet; `penstock review show {review_id}` tells how it stands.")
    rows = [finding.model_dump(mode="json") for finding in found]
    show(rows, FINDINGS, as_json=as_json, empty="Nothing was found.")


async def _read(review_id: UUID) -> Review:
    from penstock.apps.review import statuses

    async with database(ORCHESTRATOR) as db:
        return await statuses.read_review(db, review_id)


def _count(review: Review) -> int | None:
    return None if review.findings is None else len(review.findings)


def _recipients(given: list[str] | None, *, required: bool) -> list[dict[str, Any]]:
    named = []
    for one in given or ():
        channel, colon, address = one.partition(":")
        if not (channel and colon and address):
            fail("Name a recipient as CHANNEL:ADDRESS, such as smtp:dev@example.org.", USAGE)
        named.append({"channel": channel, "address": address, "required": required})
    return named


@asynccontextmanager
async def _reviews() -> AsyncIterator[Reviews]:
    """The application as its orchestrator."""
    from penstock.apps.review.application import review_app
    from penstock.settings import load_settings
    from penstock.telemetry import logs

    settings = load_settings()
    logs.configure("error", settings.log_format)
    reviews = review_app(settings.model_copy(update={"dsn": await find_dsn(settings, ORCHESTRATOR)}))
    async with reviews.app:
        yield reviews
