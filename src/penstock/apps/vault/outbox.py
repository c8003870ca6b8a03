"""The outbox: the job of an item, in the transaction of whoever saves the item."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.apps.vault.models import JOB_TYPE, OutboxJob
from penstock.apps.vault.refusals import UnknownItem
from penstock.apps.vault.rows import rows_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from penstock.engine.app import Penstock


class OutboxRepository:
    """Puts jobs in over *session*; they are there when it commits and never were when it does not (D-08).

    *app* is the application whose types they are of; without one it is the
    vault of this process.
    """

    def __init__(self, session: AsyncSession, app: Penstock | None = None) -> None:
        self.session = session
        self._app = app

    async def create(self, item_id: str, job_type: str = JOB_TYPE) -> OutboxJob:
        """Insert the job of an item, and have the poke sent once the session's root transaction has committed (C-27).

        One job for each item, type and round: asked again, it is the same job.
        `UnknownItem` when the session cannot see the item.
        """
        await self.session.flush()  # an item that waits in the session comes before its job
        known = _id(item_id)
        row = await rows_of(self.session).one("items/get_round", str(known))
        if row is None:
            raise UnknownItem(known)
        number: int = row["enrichment_round"]
        job_id = await self.app.enqueue(
            job_type, {"item_id": str(known)}, key=key_of(known, number), connection=self.session
        )
        return OutboxJob(job_id, str(known), job_type, number)

    @property
    def app(self) -> Penstock:
        """The application that the jobs are of."""
        if self._app is None:
            from penstock.apps.vault.application import vault

            self._app = vault().app
        return self._app


def key_of(item_id: UUID, number: int) -> str:
    """`item.id` is the idempotency key of its enrichment (D-54); each round after the first adds its number."""
    return str(item_id) if number == 1 else f"{item_id}#{number}"


def _id(item_id: str) -> UUID:
    try:
        return UUID(item_id)
    except (AttributeError, TypeError, ValueError):
        problem = "(no UUID)"
    raise UnknownItem(problem)
