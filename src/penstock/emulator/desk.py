"""What the routes of all providers share: keys, bodies, pages."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from penstock.emulator.files import File
from penstock.emulator.replies import Refused, error
from penstock.emulator.world import World

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


def refusing(provider: str, handler: Handler) -> Handler:
    """*handler*, its refusals told in the provider's JSON."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refused:
            return error(provider, refused)

    return guarded


def project_of(world: World, key: str) -> str | None:
    """The project that *key* opens; None when it opens none."""
    if world.settings.keys is None:
        return "default" if key else None
    return world.settings.keys.get(key)


async def json_body(request: Request) -> dict[str, Any]:
    """The body as an object, refused when it is none."""
    try:
        found = json.loads(await request.body())
    except ValueError:
        raise Refused(400, None, "We could not parse the JSON body of your request.") from None
    if not isinstance(found, dict):
        raise Refused(400, None, "The body of your request is not a JSON object.")
    return found


def page(everything: Iterable[T], name: Callable[[T], str], after: str | None, limit: int) -> tuple[list[T], bool]:
    """The *limit* things that follow *after*, and whether there are more."""
    found: list[T] = []
    started = after is None
    for each in everything:
        if started and len(found) == limit:
            return found, True
        if started:
            found.append(each)
        elif name(each) == after:
            started = True
    if not started:
        raise Refused(400, None, f"There is no object {after!r} to continue after.", "after")
    return found, False


def whole(request: Request, name: str, default: int, most: int) -> int:
    """A number from the query, refused outside of 1 and *most*."""
    given = request.query_params.get(name, str(default))
    if not given.isdigit() or not 1 <= int(given) <= most:
        raise Refused(400, None, f"'{name}' has to be between 1 and {most}.", name)
    return int(given)


def known_model(world: World, model: object) -> str:
    """The name of a model that exists."""
    if not isinstance(model, str) or not model:
        raise Refused(400, "missing_required_parameter", "Missing required parameter: 'model'.", "model")
    known = world.settings.models
    if known is not None and model not in known:
        raise Refused(404, "model_not_found", f"The model {model!r} does not exist.", "model")
    return model


def files_of(world: World, provider: str, project: str) -> list[File]:
    """The files of a project, newest first."""
    world.settle()
    every = list(world.files.values())
    return [file for file in reversed(every) if file.provider == provider and file.project == project]


def find_file(world: World, provider: str, project: str, file_id: str) -> File:
    """One file of a project, refused when it has none of that id."""
    world.settle()
    file = world.files.get(file_id)
    if file is None or file.provider != provider or file.project != project:
        raise Refused(404, None, f"No such File object: {file_id}", "id")
    return file
