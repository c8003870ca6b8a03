"""What is sent, written down before anything is: one delivery per recipient, with its bytes (N-07, N-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.review import deliveries, repository, settling
from penstock.apps.review.deliveries import NewDelivery, delivery_token
from penstock.apps.review.messages import render
from penstock.apps.review.models import ChannelKind, Recipient
from penstock.contract.errors import Failed, NotFound, RecipientInvalid
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.apps.review.deliveries import Delivery
    from penstock.apps.review.repository import Answered, Artifact, StoredReview
    from penstock.channels.port import Channel, Message
    from penstock.channels.registry import Channels
    from penstock.store.claims import Db


class Letter:
    """What is told of one review, whoever is told."""

    def __init__(self, review: StoredReview, artifact: Artifact, answered: Answered) -> None:
        self.review = review
        self._artifact = artifact
        self._answered = answered

    @classmethod
    async def load(cls, db: Db, review_id: UUID) -> Letter:
        """From the tables, so that it says the same whenever it is written."""
        review = await repository.load_review(db, review_id)
        artifact = await repository.load_artifact(db, review_id)
        if review is None or artifact is None:
            raise Failed(FailureClass.NOT_FOUND, f"review {review_id} was not fetched; replay it with a full restart")
        return cls(review, artifact, await repository.load_parts(db, review_id))

    def to(self, recipient: Recipient) -> Message:
        """The message to one recipient; no clock has a part in it."""
        artifact, answered = self._artifact, self._answered
        return render(
            self.review,
            artifact.facts,
            answered.findings,
            artifact.skipped,
            answered.dropped,
            recipient=recipient,
            token=self.token(recipient),
            written_at=artifact.fetched_at or self.review.created_at,
            parts=artifact.parts,
        )

    def token(self, recipient: Recipient) -> str:
        """The token of the delivery to *recipient*."""
        return delivery_token(self.review.changelist_id, recipient.recipient, self.review.review_version)


async def write_missing(db: Db, channels: Channels, review_id: UUID) -> None:
    """Write down whoever has no delivery yet; a channel that is off writes its bytes when it is tried."""
    missing = await deliveries.missing(db, review_id)
    if not missing:
        return
    letter = await Letter.load(db, review_id)
    named = [
        Recipient(channel=ChannelKind(row["channel"]), address=row["address"], required=row["required"])
        for row in missing
    ]
    await deliveries.insert(db, review_id, [_written(channels, letter, one) for one in named])


def _written(channels: Channels, letter: Letter, recipient: Recipient) -> NewDelivery:
    channel, payload = None, None
    try:
        channel = channels.get(recipient.channel)
        payload = channel.compose(letter.to(recipient))
    except (Failed, RecipientInvalid):  # told when it is tried, so that the others are told first
        pass
    return NewDelivery(recipient, letter.token(recipient), settling.promise(channel), payload)


async def write_one(db: Db, channel: Channel, row: Delivery) -> bytes:
    """The bytes of a delivery that has none yet; the first to write them decides."""
    letter = await Letter.load(db, row.review_id)
    recipient = Recipient(channel=ChannelKind(row.channel), address=row.address, required=row.required)
    try:
        payload = channel.compose(letter.to(recipient))
    except RecipientInvalid as invalid:
        raise Failed(FailureClass.RECIPIENT_REJECTED, str(invalid)) from invalid
    await deliveries.write(db, row.delivery_id, payload, settling.promise(channel))
    for written in await deliveries.load(db, row.review_id):
        if written.delivery_id == row.delivery_id and written.payload is not None:
            return written.payload
    raise NotFound("delivery", row.delivery_id)
