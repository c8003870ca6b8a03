"""How a send in doubt is settled on a channel, as far as the channel can (C-42)."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from penstock.channels.port import Settles, WhenUncertain
from penstock.contract.classify import classify
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.apps.review.deliveries import Delivery, Unsettled
    from penstock.channels.port import Channel, Receipt


class Way(Enum):
    """What is done before a send may be repeated."""

    LOOK_UP = auto()
    REPLAY = auto()  # the same bytes under the same key are the question: a second message cannot come of them
    REPEAT = auto()  # nothing can be found out; the receiver knows the message by its id
    HOLD = auto()  # nothing can be found out; a person decides


def way(channel: Channel, row: Delivery) -> Way:
    """How *row* can be settled now."""
    if can_look_up(channel, row.notification_id):
        return Way.LOOK_UP
    if Settles.IDEMPOTENT_REPLAY in channel.settles and _in_window(channel, row):
        return Way.REPLAY
    return Way.REPEAT if channel.when_uncertain is WhenUncertain.SEND_AGAIN else Way.HOLD


def can_look_up(channel: Channel, notification_id: str | None) -> bool:
    """Whether the provider can be asked about a message without sending it."""
    by_id = Settles.LOOKUP_BY_ID in channel.settles and notification_id is not None
    return by_id or Settles.LOOKUP_BY_TOKEN in channel.settles


def promise(channel: Channel | None) -> str:
    """What the channel can keep: `at_most_once`, or `at_least_once` where it would send again without knowing."""
    held = channel is not None and (channel.settles or channel.when_uncertain is WhenUncertain.HOLD)
    return "at_most_once" if held else "at_least_once"


async def look_up(
    channel: Channel, row: Delivery | Unsettled, note: Callable[[str], Awaitable[None]]
) -> Receipt | None:
    """Ask the provider; None only where it says, to a key that may read, that there is nothing.

    Every failure is one that a retry may help, also a key that may not read:
    what cannot be looked up is not sent (C-42). *note* writes down what was
    answered.
    """
    try:
        receipt = await channel.look_up(row.token, row.notification_id)
    except Exception as error:
        failure = classify(error, idempotent=True)
        await note(str(failure.error_class))
        if failure.retryable:
            raise
        why = (
            f"{channel.kind} does not let a message be looked up ({failure.error_class}); it is not sent until it does"
        )
        raise Failed(FailureClass.UPSTREAM_5XX, why, retry_after=failure.retry_after) from error
    await note("absent" if receipt is None else "found")
    return receipt


def _in_window(channel: Channel, row: Delivery) -> bool:
    window = channel.window
    return window is None or row.first_send_at is None or row.now < row.first_send_at + window
