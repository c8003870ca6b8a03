"""Creation: one request in, one review with one job out, however often and from wherever it is asked for (C-47).

    known key                           the review that it stands for, whatever else came with it
    this version is there               that review; the key stands for it from now on
    rerun, above every version          a new review of the same changelist
    above every version, none succeeded an ordinary new review
    anything else                       `RerunNotAllowed`, and nothing is written

Two requests with one key, or about one changelist, wait for each other, so the
second of them meets what the first has decided.
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pydantic import ValidationError

from penstock.apps.review import repository
from penstock.apps.review.models import CHANGELIST, JOB_TYPE, Recipient, Review, ReviewArgs
from penstock.apps.review.repository import NewReview
from penstock.apps.review.statuses import read_review
from penstock.contract.errors import EnqueueRefused, Failed, RecipientInvalid, RerunNotAllowed
from penstock.contract.keys import checked_key, uuid7
from penstock.engine import owned

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from penstock.apps.review.application import Reviews
    from penstock.apps.review.repository import Version
    from penstock.store.claims import Transaction

MOST_RECIPIENTS: Final = 100
LONGEST_LABEL: Final = 50
LARGEST_VERSION: Final = 2**31 - 1
_OURS: Final = re.compile(r"#(?:replay|redeliver)-\d+\Z")


@dataclass(frozen=True, slots=True)
class Created:
    """What a request came to. *created*: it made new work; otherwise this is the review that was there."""

    review: Review
    created: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A request whose form has been checked."""

    changelist_id: str
    review_version: int
    recipients: tuple[Recipient, ...] = field(repr=False)
    rerun: bool
    label: str | None


class Creation:
    """Makes reviews, as penstock_orchestrator."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    async def create_review(
        self,
        *,
        idempotency_key: str,
        changelist_id: str,
        review_version: int = 1,
        recipients: Sequence[Recipient | Mapping[str, Any]],
        rerun: bool = False,
        label: str | None = None,
        connection: Transaction | None = None,
    ) -> Created:
        """Make a review of *changelist_id* and the job that does it, or return the one that is there.

        With *connection* (asyncpg), or inside `app.transaction()`, all of it
        belongs to that transaction; a refusal leaves the transaction good.
        """
        key = _key(idempotency_key)
        async with self._transaction(connection) as tx:
            await repository.lock(tx, f"key:{key}")
            known = await repository.find_by_key(tx, key)
            if known is not None:
                return Created(await read_review(tx, known), created=False)
            asked = self._checked(changelist_id, review_version, recipients, label, rerun=rerun)
            await repository.lock(tx, f"changelist:{asked.changelist_id}")
            same = _settled(asked, await repository.find_versions(tx, asked.changelist_id))
            review_id = same or await self._make(tx, key, asked)
            await repository.insert_key(tx, key, review_id)
            return Created(await read_review(tx, review_id), created=same is None)

    async def _make(self, tx: Transaction, key: str, asked: Asked) -> UUID:
        """Store a new review beside its job, under the caller's own key (N-01)."""
        review_id = uuid7()
        args = ReviewArgs(review_id=review_id)
        job_id = await self._reviews.app.enqueue(JOB_TYPE, args, key=key, connection=tx)
        new = NewReview(
            review_id, job_id, asked.changelist_id, asked.review_version, asked.recipients, asked.label, asked.rerun
        )
        await repository.insert_review(tx, new)
        return review_id

    @asynccontextmanager
    async def _transaction(self, given: Transaction | None) -> AsyncIterator[Transaction]:
        """One of our own; in the caller's a savepoint, to which a refusal goes back."""
        app = self._reviews.app
        connection = given if given is not None else owned.current(app)
        if connection is None:
            async with app.transaction() as tx:
                yield tx
        elif not hasattr(connection, "is_in_transaction"):
            raise EnqueueRefused(
                f"create_review works on a connection of asyncpg, not on {type(connection).__name__}; "
                "give one, or none and a transaction of its own is used"
            )
        else:
            async with connection.transaction():
                yield connection

    def _checked(
        self,
        changelist_id: object,
        review_version: object,
        recipients: object,
        label: object,
        *,
        rerun: bool,
    ) -> Asked:
        """The request, if all of it can be; the first thing that cannot is told."""
        return Asked(
            self._changelist(changelist_id),
            _version(review_version),
            self._recipients(recipients),
            rerun,
            _label(label),
        )

    def _changelist(self, changelist_id: object) -> str:
        """*changelist_id*, if its source is configured here and could have such a changelist."""
        parts = CHANGELIST.fullmatch(changelist_id) if isinstance(changelist_id, str) else None
        if parts is None or not parts["ref"].isprintable():
            raise EnqueueRefused("a changelist is <source>:<ref>, such as shop:4f1c2aa or hub:17; this one is not")
        ref = self._reviews.sources.get(parts["source"]).checked(parts["ref"])
        return f"{parts['source']}:{ref}"

    def _recipients(self, given: object) -> tuple[Recipient, ...]:
        """Everybody who is to be told, each once and each reachable; refusals count from 1 and repeat no address."""
        named = list(given) if isinstance(given, list | tuple) else []
        if not 1 <= len(named) <= MOST_RECIPIENTS:
            raise RecipientInvalid(
                f"a review has 1 to {MOST_RECIPIENTS} recipients, this one has {len(named)}; "
                'name them as [{"channel": "smtp", "address": "dev@example.org"}]'
            )
        found: dict[str, Recipient] = {}
        for number, one in enumerate(named, start=1):
            recipient = self._recipient(number, one)
            if recipient.recipient in found:
                raise RecipientInvalid(f"recipient {number} was named before; name everybody once")
            found[recipient.recipient] = recipient
        return tuple(found.values())

    def _recipient(self, number: int, given: object) -> Recipient:
        try:
            recipient = Recipient.model_validate(given)
        except ValidationError as misfit:
            where = ", ".join(sorted({str(error["loc"][0]) for error in misfit.errors() if error["loc"]}))
            raise RecipientInvalid(
                f"recipient {number} does not fit ({where or 'no object'}); it has a channel (resend, smtp or "
                "webhook), an address, and may be required or not"
            ) from None
        if not recipient.address.isprintable():
            raise RecipientInvalid(f"recipient {number} has an address that nobody could type; check it")
        try:
            address = self._reviews.channels.checked(recipient.channel, recipient.address)
        except RecipientInvalid as refused:
            raise RecipientInvalid(f"recipient {number}: {refused}") from None
        except Failed as off:
            raise RecipientInvalid(f"recipient {number}: {off.why}") from None
        return recipient.model_copy(update={"address": address})


def _settled(asked: Asked, versions: Sequence[Version]) -> UUID | None:
    """The review that the request already has, or None for new work; what is neither is refused (N-04 to N-06)."""
    same = next((one for one in versions if one.review_version == asked.review_version), None)
    if same is not None:
        return same.review_id
    highest = versions[-1].review_version if versions else 0
    if asked.review_version < highest:
        raise RerunNotAllowed(
            f"{asked.changelist_id} is at version {highest}, and {asked.review_version} lies below it; "
            f"ask for a rerun with a version above {highest}"
        )
    if not asked.rerun and any(one.succeeded for one in versions):
        raise RerunNotAllowed(
            f"{asked.changelist_id} was reviewed with success; say rerun to have version {asked.review_version} made "
            "as well, and everybody told again"
        )
    return None


def _key(key: object) -> str:
    """The caller's key; one that ends like those of replays is kept for them."""
    if key is None:
        raise EnqueueRefused("a review needs an idempotency key, so that asking twice makes one; give one")
    checked = checked_key("an idempotency key", key)  # type: ignore[arg-type]  # it refuses what is no text
    if _OURS.search(checked):
        raise EnqueueRefused("an idempotency key does not end with #replay-1 or the like: replays have such keys")
    return checked


def _version(version: object) -> int:
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= LARGEST_VERSION:
        raise EnqueueRefused("a review_version is a whole number from 1 on; labels such as v4 go into label")
    return version


def _label(label: object) -> str | None:
    if label is None:
        return None
    if not (isinstance(label, str) and label.isprintable() and 1 <= len(label) <= LONGEST_LABEL):
        raise EnqueueRefused(f"a label has 1 to {LONGEST_LABEL} printable characters")
    return label
