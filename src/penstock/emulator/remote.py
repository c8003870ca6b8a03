"""An emulator in another process, steered over its own endpoints."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request, urlopen

PATIENCE = 30.0


class RemoteEmulator:
    """The same words as `Emulator` has, for an emulator that outlives its clients."""

    def __init__(self, url: str) -> None:
        if not url.startswith("http://"):
            raise ValueError(f"{url!r} is no emulator's URL; it begins with http://")
        self.url = url.rstrip("/")
        self.openai_base_url = f"{self.url}/openai/v1"
        self.gemini_base_url = f"{self.url}/gemini"
        self.anthropic_base_url = f"{self.url}/anthropic"
        self.resend_url = f"{self.url}/resend"

    def webhook_url(self, name: str) -> str:
        """Where *name* gets webhooks."""
        return f"{self.url}/webhook/{name}"

    @property
    def smtp_port(self) -> int:
        """Where it takes mails."""
        found = self.state()["smtp_port"]
        if found is None:
            raise RuntimeError("this emulator has no mail server; start it with --smtp-port 0")
        return int(found)

    def state(self) -> dict[str, Any]:
        """Counts per provider; per submission token the batches created, live and kept."""
        return dict(self._ask("GET", "state"))

    def calls(self) -> list[dict[str, Any]]:
        """The latest requests, oldest first."""
        return list(self._ask("GET", "calls"))

    def deliveries(self) -> list[dict[str, Any]]:
        """Every message that was delivered, oldest first: channel, token, id and time."""
        return list(self._ask("GET", "deliveries"))

    def lose(self, token: str) -> None:
        """Forget a message, as a provider that never had it."""
        self._ask("DELETE", f"deliveries/{token}")

    def add_fault(self, kind: str, **settings: Any) -> None:
        """Put a fault in force."""
        self._ask("POST", "faults", {"kind": kind, **settings})

    def clear_faults(self) -> None:
        """No faults from here on."""
        self._ask("DELETE", "faults")

    def add_answer(self, answer: Any, **who: Any) -> None:
        """Answer so whenever it fits."""
        self._ask("POST", "answers", {"answer": answer, **who})

    def advance(self, seconds: float) -> None:
        """Wind the emulator's clock forward."""
        self._ask("POST", "advance", {"seconds": seconds})

    def reset(self) -> None:
        """Forget everything."""
        self._ask("POST", "reset")

    def _ask(self, method: str, what: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/_emulator/{what}", data, method=method)  # noqa: S310 - http only, see above
        with urlopen(request, timeout=PATIENCE) as reply:  # noqa: S310 - the same
            return json.loads(reply.read())
