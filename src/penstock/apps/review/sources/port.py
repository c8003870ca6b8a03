"""The port of every source of changelists.

A source is named by whoever runs the application, and a caller gives nothing
but a ref in it: never a path, never a host. Failures are `Failed` with a class
of the closed list, in words of ours; what is gone, forbidden or too large is
final, and what may pass by itself is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from penstock.apps.review.models import Fetched


class Source(Protocol):
    """One place that changelists come from."""

    @property
    def kind(self) -> str:
        """The word that its entry in the sources has for it."""

    def checked(self, ref: str) -> str:
        """*ref* in its one spelling, if it can be a ref of this source at all; else `EnqueueRefused`. Asks nobody."""

    async def fetch(self, ref: str, *, max_bytes: int) -> Fetched:
        """The changelist as it is now; more than *max_bytes* of it is `PAYLOAD_REJECTED` and never held whole."""


def too_large(max_bytes: int) -> Failed:
    """What to raise for a changelist over the limit; it is as large at the next attempt."""
    return Failed(
        FailureClass.PAYLOAD_REJECTED,
        f"the changelist is larger than {max_bytes:,} bytes; split it, or raise PENSTOCK_REVIEW_MAX_DIFF_BYTES",
    )
