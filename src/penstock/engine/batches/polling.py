"""Asking after a batch: how often, and what an answer, an error or a not-found means.

An error says nothing about the batch: a wrong key, a provider that is down, a
bug of ours leave everything as it is and tell somebody. A not-found says a
little: fresh batches are missing for minutes, so it is noted, told after the
adapter's grace, and believed only when the batch's own deadline has passed.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.classify import Failure, classify
from penstock.contract.failures import FailureClass
from penstock.providers.port import BatchState, Phase

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import TypeVar

    from penstock.providers.port import BatchAdapter
    from penstock.store.batch_items import Leased

    T = TypeVar("T")

SHORTEST: Final = timedelta(seconds=5)
LONGEST: Final = timedelta(minutes=15)
CANCELING: Final = timedelta(minutes=1)  # between polls of a batch that is being canceled
CANCEL_GRACE: Final = timedelta(hours=1)  # a canceled batch that has not ended by then is given up
SLOWER: Final = 8  # a batch is polled every eighth of its age
CALL_SECONDS: Final = 60.0  # a poll or a cancel
DOWNLOAD_SECONDS: Final = 1800.0


def interval(batch: Leased, *, failed: bool = False) -> timedelta:
    """How long to wait for the next poll: a growing part of the batch's age, longer after failures in a row."""
    usual = min(max((batch.now - batch.submitted_at) / SLOWER, SHORTEST), LONGEST)
    return min(usual * 2 ** min(batch.poll_failures + 1, 10), LONGEST) if failed else usual


async def poll(adapter: BatchAdapter, batch: Leased) -> BatchState | Failure:
    """Where the batch stands, or why nobody can tell."""
    return await asked(adapter.poll(batch.provider_batch_id))


async def asked(call: Awaitable[T], seconds: float = CALL_SECONDS) -> T | Failure:
    """What a provider answers; whatever it raises is a failure, and nothing else."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        return Failure(FailureClass.NETWORK_TIMEOUT, retryable=True)
    except Exception as error:
        return classify(error, idempotent=True, unknown_retryable=True)


def late(batch: Leased) -> bool:
    """Whether the batch is past its own deadline (C-05)."""
    return batch.deadline_at is not None and batch.now > batch.deadline_at


def given_up(batch: Leased) -> bool:
    """Whether a batch does not even end when it is told to: its provider has had all the time that takes."""
    return batch.cancel_sent_at is not None and batch.now > batch.cancel_sent_at + CANCEL_GRACE


def hopeless(batch: Leased, failure: Failure) -> bool:
    """Whether an operator has given it up, and nobody can read its results: not now, or not for an hour."""
    if batch.cancel_asked_at is None:
        return False
    return not failure.retryable or batch.now > batch.cancel_asked_at + CANCEL_GRACE


def is_missing(failure: Failure) -> bool:
    """Whether the provider says that it does not know the batch, or its results."""
    return failure.error_class is FailureClass.NOT_FOUND


def missing_too_long(batch: Leased, grace: timedelta) -> bool:
    """Whether it has been missing for longer than a fresh batch may be."""
    return batch.missing_since is not None and batch.now - batch.missing_since > grace


def over(state: BatchState) -> bool:
    """Whether the provider works on it no more."""
    return state.phase is not Phase.RUNNING


def has_results(state: BatchState) -> bool:
    """Whether there may be lines to read: a batch that was refused as a whole has files or nothing."""
    return state.phase is not Phase.FAILED or bool(state.output_file_id or state.error_file_id)
