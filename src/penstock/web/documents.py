"""The OpenAPI document: what FastAPI finds in the routes, with our problems and keys in the place of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from penstock.version import VERSION
from penstock.web.keys import SCHEME
from penstock.web.problems import MEDIA_TYPE, PROBLEMS, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

DESCRIPTION: Final = (
    "Jobs on PostgreSQL over HTTP. Every error is a problem (RFC 9457) with a stable code and repeats no input. "
    "Rewrites complete asynchronously, and no time is promised: follow the stream."
)
TEMPLATE: Final = "#/components/schemas/{model}"
GUARDED: Final = ("key_refused", "not_allowed", "switched_off", "database_away", "timed_out", "internal_error")
WITH_INPUT: Final = ("bad_request", "input_invalid")
WITH_BODY: Final = ("body_malformed", "body_too_slow", "body_too_large", "media_type_refused")


def told(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The responses of a route for these problems."""
    found: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        status, title = PROBLEMS[code]
        known = found.setdefault(status, _response(""))
        known["description"] = " ".join([*filter(None, [known["description"]]), f"`{code}`: {title}"])
    return found


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document; made once."""
    if app.openapi_schema is None:
        made = get_openapi(title="Penstock", version=VERSION, description=DESCRIPTION, routes=app.routes)
        for route in app.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                for method in route.methods or ():
                    _complete(made["paths"][route.path_format][method.lower()], route)
        components = made.setdefault("components", {})
        components["schemas"] = dict(_schemas(components.get("schemas", {})))
        components["securitySchemes"] = {
            SCHEME: {"type": "http", "scheme": "bearer", "bearerFormat": "id.secret",
                     "description": "`penstock keys create` makes one; each route names the scope that it is for."}
        }  # fmt: skip
        app.openapi_schema = made
    return app.openapi_schema


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    """Say who may call it and every problem that it can answer with."""
    needs = getattr(route, "needs", None)
    codes = [*(GUARDED if needs is not None else ())]
    if operation.get("parameters") or route.body_field is not None:
        codes += WITH_INPUT
    if route.body_field is not None:
        codes += WITH_BODY
    if needs is not None:
        operation["security"] = [{SCHEME: [str(needs)]}]
    responses = operation["responses"]
    for status, ours in told(*codes).items():
        named = responses.get(str(status), {})
        theirs = named["description"] if MEDIA_TYPE in named.get("content", {}) else ""
        ours["description"] = " ".join(filter(None, [theirs, ours["description"]]))
        responses[str(status)] = ours


def _schemas(found: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The models, without FastAPI's own form of bad input, which repeats what came in."""
    made = Problem.model_json_schema(ref_template=TEMPLATE)
    yield from made.pop("$defs").items()
    yield "Problem", made
    yield from ((name, schema) for name, schema in found.items() if "ValidationError" not in name)


def _response(description: str) -> dict[str, Any]:
    return {"description": description, "content": {MEDIA_TYPE: {"schema": {"$ref": TEMPLATE.format(model="Problem")}}}}
