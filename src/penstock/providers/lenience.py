"""What is no error although a provider calls it one: ending what has ended, deleting what is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.providers.port import Phase

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.providers.port import BatchState

# How providers refuse to cancel a batch that is not running: 409, 400, FAILED_PRECONDITION, or no such batch.
_REFUSALS: Final = frozenset(
    {FailureClass.CONFLICT, FailureClass.SCHEMA_INVALID, FailureClass.CONFIG_INVALID, FailureClass.NOT_FOUND}
)


async def unless_over(cancel: Awaitable[None], poll: Callable[[], Awaitable[BatchState]], stopping: str) -> None:
    """Cancel; a refusal counts only while the batch is running and not *stopping* already."""
    try:
        return await cancel
    except Failed as failed:
        refused = failed
    if refused.error_class not in _REFUSALS:
        raise refused
    state = await poll()
    if state.phase is Phase.RUNNING and state.provider_status != stopping:
        raise refused
    return None


async def unless_gone(delete: Awaitable[None]) -> None:
    """Delete; what is not there needs no deleting."""
    try:
        await delete
    except Failed as failed:
        if failed.error_class is not FailureClass.NOT_FOUND:
            raise
