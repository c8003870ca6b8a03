"""The emulator's own endpoints, under /_emulator: look, wind the clock, script faults and answers."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.emulator.kinds import KINDS
from penstock.emulator.world import World


class Admin:
    """What a test in another process may do; no provider has it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """Where it answers."""
        return [
            Route("/_emulator/state", self.state, methods=["GET"]),
            Route("/_emulator/calls", self.calls, methods=["GET"]),
            Route("/_emulator/deliveries", self.deliveries, methods=["GET"]),
            Route("/_emulator/deliveries/{token}", self.lose, methods=["DELETE"]),
            Route("/_emulator/faults", self.faults, methods=["GET", "POST", "DELETE"]),
            Route("/_emulator/answers", self.answers, methods=["POST", "DELETE"]),
            Route("/_emulator/advance", self.advance, methods=["POST"]),
            Route("/_emulator/reset", self.reset, methods=["POST"]),
        ]

    async def state(self, _request: Request) -> Response:
        """Counts per provider, and per submission its batches."""
        problems = [f"{type(error).__name__}: {error}" for error in self._world.problems]
        return JSONResponse({**self._world.state(), "problems": problems})

    async def calls(self, _request: Request) -> Response:
        """The latest requests, oldest first."""
        shown = [
            {"provider": call.provider, "method": call.method, "path": call.path, "at": call.at}
            | {"status": call.status, "faults": call.faults}
            for call in list(self._world.calls)
        ]
        return JSONResponse(shown)

    async def deliveries(self, _request: Request) -> Response:
        """Every message that was delivered, oldest first, without its address and its text."""
        shown = [
            {"channel": each.channel, "token": each.token, "id": each.identity, "at": each.at}
            for each in self._world.deliveries
        ]
        return JSONResponse(shown)

    async def lose(self, request: Request) -> Response:
        """Forget a message, as a provider that never had it."""
        return JSONResponse({"lost": self._world.deliveries.lose(request.path_params["token"])})

    async def faults(self, request: Request) -> Response:
        """List the kinds and the rules in force; add rules; clear them."""
        if request.method == "DELETE":
            self._world.faults.clear()
        elif request.method == "POST":
            try:
                self._world.faults.load(_many(await request.body()))
            except (ValueError, TypeError) as error:
                return JSONResponse({"error": str(error)}, 400)
        rules = [
            {"kind": rule.kind, "provider": rule.provider, "seen": rule.seen, "struck": rule.struck}
            for rule in self._world.faults.rules
        ]
        return JSONResponse({"kinds": {name: kind.meaning for name, kind in KINDS.items()}, "rules": rules})

    async def answers(self, request: Request) -> Response:
        """Add canned answers, or forget them."""
        if request.method == "DELETE":
            self._world.answers.clear()
        else:
            try:
                self._world.answers.load(_many(await request.body()))
            except (ValueError, TypeError) as error:
                return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"rules": len(self._world.answers.rules)})

    async def advance(self, request: Request) -> Response:
        """Wind the clock."""
        try:
            self._world.clock.advance(float(json.loads(await request.body())["seconds"]))
        except (ValueError, KeyError, TypeError) as error:
            return JSONResponse({"error": f"send {{'seconds': a number of 0 or more}}: {error}"}, 400)
        self._world.settle()
        return JSONResponse({"now": self._world.clock.now()})

    async def reset(self, _request: Request) -> Response:
        """Forget everything."""
        self._world.reset()
        return JSONResponse({})


def _many(body: bytes) -> list[Any]:
    """The rules in *body*: one object or a list of them."""
    found = json.loads(body)
    return found if isinstance(found, list) else [found]
