"""`/healthz`, `/readyz` and `/metrics`: for the machines around us, without a key.

None of them says anything about a home, a user or a message. `/metrics` is
open to this machine only; through a proxy, or from elsewhere, it asks for a
key of an operator.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from pydantic import BaseModel, ConfigDict, Field

from penstock.store.api_keys import Scope
from penstock.web.documents import told
from penstock.web.keys import admitted
from penstock.web.logins import Logins, State
from penstock.web.problems import Refused

FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    """The process answers."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["alive"]


class Ready(BaseModel):
    """Every login that is set can work; those that are not set are switched off."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["ready"]
    logins: Annotated[dict[Scope, State], Field(description="what each scope's routes are good for")]


@router.get("/healthz", operation_id="healthz")
async def healthz() -> Alive:
    """Whether the process is alive; asks nobody else."""
    return Alive(status="alive")


@router.get("/readyz", responses=told("not_ready"), operation_id="readyz")
async def readyz(request: Request) -> Ready:
    """Whether the database can be reached as every role that is set, with the schema that this code needs."""
    logins: Logins = request.app.state.logins
    states = await logins.states()
    if not all(state in (State.READY, State.SWITCHED_OFF) for state in states.values()):
        raise Refused("not_ready", more={"logins": {str(scope): str(state) for scope, state in states.items()}})
    return Ready(status="ready", logins=states)


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        **told("key_refused", "not_allowed", "switched_off"),
        200: {"description": "Prometheus' text format", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
    operation_id="metrics",
)
async def metrics(request: Request) -> Response:
    """What this process has counted."""
    if not _is_from_here(request):
        await admitted(request, Scope.OPERATOR)
    return Response(await asyncio.to_thread(generate_latest, REGISTRY), media_type=CONTENT_TYPE_LATEST)


def _is_from_here(request: Request) -> bool:
    """Whether a program on this machine asks, and not on behalf of another."""
    if request.client is None or any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
