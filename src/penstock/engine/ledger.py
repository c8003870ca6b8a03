"""The port behind an effect: where its tries are written down.

`store.effects` is the engine's own ledger. An application that keeps rows of
its own about an effect gives another one, which calls the engine's inside its
own transaction: so the two never disagree, whatever is killed when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.contract.claims import Claim
    from penstock.store.claims import Db
    from penstock.store.effects import Intent


class Ledger(Protocol):
    """Writes for one effect. Every call may come twice, as its reply may be lost."""

    async def intend(
        self,
        db: Db,
        worker: str,
        claim: Claim,
        *,
        effect_key: str,
        kind: str,
        token: str,
        holds_claim: bool,
        nonce: UUID,
    ) -> Intent:
        """Commit the intent and say what to do next; the same *nonce* again gets the same answer."""

    async def mark(self, db: Db, effect_key: str, claim: Claim, result: str | None, outcome: str) -> bool:
        """Record that it has happened; False when *claim* no longer has it in hand."""

    async def marked_by(self, db: Db, effect_key: str, claim: Claim) -> bool:
        """Whether *claim* has marked it."""

    async def doubt(self, db: Db, effect_key: str, claim: Claim) -> None:
        """Record that nobody can tell whether it has happened."""

    async def disprove(self, db: Db, effect_key: str, claim: Claim) -> None:
        """Record that the try of *claim* has certainly not happened."""

    async def note(self, db: Db, effect_key: str, action: str, outcome: str) -> None:
        """Record what came of a perform or of a settle."""
