"""Choosing dead letters, by id or by filter, and taking one step on each of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from inspect import Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from penstock.cli.common import database, print_json, run
from penstock.cli.exits import REFUSED, USAGE, exit_code, fail
from penstock.cli.progress import bar
from penstock.contract.dead_letters import Cause, LetterState
from penstock.contract.errors import PenstockError

if TYPE_CHECKING:
    from penstock.engine.bulk import BulkReport, Progress
    from penstock.store.claims import Db
    from penstock.store.dead_letters import Filter

MOST_HOURS: Final = 876_600  # a century
MOST_LETTERS: Final = 1_000_000_000

Letters = Annotated[list[UUID] | None, typer.Argument(metavar="DEAD_LETTER_ID", show_default=False)]
Types = Annotated[list[str] | None, typer.Option("--type", help="Only letters of this type; may be repeated.")]
Classes = Annotated[list[str] | None, typer.Option("--class", help="Only this class of failure; may be repeated.")]
Stages = Annotated[list[str] | None, typer.Option("--stage", help="Only this stage; may be repeated.")]
Causes = Annotated[list[Cause] | None, typer.Option("--cause", help="Only this cause; may be repeated.")]
Older = Annotated[
    float | None,
    typer.Option("--older-than", min=0, max=MOST_HOURS, help="Failed last more than so many hours ago."),
]
Newer = Annotated[
    float | None,
    typer.Option("--newer-than", min=0, max=MOST_HOURS, help="Failed last less than so many hours ago."),
]
Everything = Annotated[bool, typer.Option("--all", help="All letters at which the step is due.")]
Most = Annotated[int | None, typer.Option("--limit", min=1, max=MOST_LETTERS, help="At most so many letters.")]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The letters of a step: by id, or by filter."""

    ids: list[UUID]
    wanted: Filter | None


def make_filter(
    types: list[str] | None,
    classes: list[str] | None,
    stages: list[str] | None,
    causes: list[Cause] | None,
    older: float | None,
    newer: float | None,
    *,
    states: list[LetterState] | None = None,
    escalated: bool | None = None,
    limit: int | None = None,
) -> Filter:
    """What the options say; ages are in hours."""
    from penstock.store.dead_letters import Filter

    return Filter(
        job_types=types or (),
        error_classes=classes or (),
        stages=stages or (),
        states=states or (),
        causes=causes or (),
        escalated=escalated,
        older_than=None if older is None else timedelta(hours=older),
        newer_than=None if newer is None else timedelta(hours=newer),
        limit=limit,
    )


def choose(letters: list[UUID] | None, wanted: Filter, *, everything: bool) -> Chosen:
    """By id or by filter; nobody touches everything by leaving an option out."""
    from penstock.store.dead_letters import Filter

    by_filter = wanted != Filter(limit=wanted.limit) or everything
    if letters and by_filter:
        fail("Give ids or filters, not both.", USAGE)
    if not letters and not by_filter:
        fail("Which dead letters? Give their ids, a filter such as --type or --class, or --all.", USAGE)
    return Chosen(letters or [], wanted if by_filter else None)


def _choosing(
    letters: Letters = None,
    *,
    types: Types = None,
    classes: Classes = None,
    stages: Stages = None,
    causes: Causes = None,
    older: Older = None,
    newer: Newer = None,
    everything: Everything = False,
    limit: Most = None,
) -> Chosen:
    wanted = make_filter(types, classes, stages, causes, older, newer, limit=limit)
    return choose(letters, wanted, everything=everything)


def on_letters(*, leave_out: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that choose dead letters, but for *leave_out*; it gets what they chose, first."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        choosing = signature(_choosing, eval_str=True).parameters.values()
        letters, *options = [option for option in choosing if option.name != leave_out]
        _, *own = signature(command, eval_str=True).parameters.values()

        @wraps(command)
        def chosen(**given: Any) -> None:
            choice = {option.name: given.pop(option.name) for option in (letters, *options)}
            command(_choosing(**choice), **given)

        chosen.__signature__ = Signature([letters, *own[:-2], *options, *own[-2:]])  # type: ignore[attr-defined]  # PEP 362
        return chosen

    return decorate


def take_step(
    chosen: Chosen,
    one: Callable[[Db, UUID], Awaitable[Any]],
    many: Callable[[Db, Filter, Progress], Awaitable[BulkReport]],
    *,
    as_json: bool,
) -> None:
    """Take a step on the letters chosen; those that are refused are told, and their exit code counts."""
    code = run(
        _many(chosen.wanted, many, as_json=as_json) if chosen.wanted else _ones(chosen.ids, one, as_json=as_json)
    )
    if code:
        raise typer.Exit(code)


async def _many(wanted: Filter, step: Callable[[Db, Filter, Progress], Awaitable[BulkReport]], *, as_json: bool) -> int:
    async with database() as db:
        with bar("dead letters") as told:
            report = await step(db, wanted, told)
    _report(report.done, report.refused, as_json=as_json)
    return REFUSED if report.refused else 0


async def _ones(ids: list[UUID], step: Callable[[Db, UUID], Awaitable[Any]], *, as_json: bool) -> int:
    done: list[UUID] = []
    refused: list[tuple[UUID, str]] = []
    code = 0
    async with database() as db:
        for dead_letter_id in ids:
            try:
                answer = await step(db, dead_letter_id)
            except PenstockError as error:
                refused.append((dead_letter_id, str(error)))
                code = exit_code(error)
            else:
                done.append(dead_letter_id)
                if isinstance(answer, UUID) and not as_json:
                    typer.echo(f"replay of {dead_letter_id}: job {answer}")
    _report(done, refused, as_json=as_json)
    return code


def _report(done: list[UUID], refused: list[tuple[UUID, str]], *, as_json: bool) -> None:
    if as_json:
        print_json({"done": done, "refused": [{"dead_letter_id": one, "error": why} for one, why in refused]})
        return
    for _, why in refused:
        typer.echo(why, err=True)
    typer.echo(f"{len(done)} done, {len(refused)} refused.")
