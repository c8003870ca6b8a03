"""What becomes of each open item of a batch that is over: the checklist A-93 to A-98 and the cases of C-37."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.engine.batches.items import EXPIRED, MISSING, REFUSED, UNEXPLAINED, Line, Sheet
from penstock.providers.port import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.contract.classify import Failure
    from penstock.providers.port import BatchState
    from penstock.store.batch_items import Leased, Name

NOTHING: Final = Sheet()
PATIENCE: Final = 3  # failures of one poll in a row before somebody is told
BACK_PRESSURE: Final = timedelta(minutes=15)  # at least so long for a batch that was too much for its provider


@dataclass(slots=True)
class Plan:
    """The line of every open item, and what somebody should hear of."""

    lines: dict[int, Line] = field(default_factory=dict)
    alerts: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    missing: int = 0
    code: str | None = None
    breaker: str | None = None  # the class of a refusal that the next batch would meet likewise
    odd: bool = False


def plan(batch: Leased, state: BatchState, names: Mapping[str, Name], sheet: Sheet, overflow: timedelta) -> Plan:
    """Give each open item its line. An item without one gets it from how its batch ended, never from a neighbour.

    Completed: the line should be there, so the item fails (A-97). Expired or
    cancelled: it was not executed and tries again (C-37 b). Failed: the lines
    that the provider names fail, the others go back uncharged (C-37 e).
    """
    made = Plan()
    bad = {line.index: line.failure for line in state.bad_lines if line.index is not None}
    without = 0
    for custom_id, name in names.items():
        line = sheet.lines.pop(custom_id, None)
        if not name.open:
            continue
        if line is None:
            line = _without_line(state, bad.get(name.number), overflow)
            without += 1
        made.lines[name.number] = line
    made.missing = without if state.phase is Phase.COMPLETED else 0
    made.odd = bool(sheet.unknown or sheet.doubled or made.missing)
    _alerts(made, batch, state, sheet, without)
    return made


def _without_line(state: BatchState, failure: Failure | None, overflow: timedelta) -> Line:
    if state.phase is Phase.COMPLETED:
        return Line(failure=MISSING)
    if state.phase is not Phase.FAILED:
        return Line(failure=EXPIRED)
    if failure is not None:
        return Line(failure=failure)
    whole = [line.failure for line in state.bad_lines if line.index is None]
    if state.bad_lines and not whole:
        return Line(back=overflow, code="BATCH_FAILED")  # others were named
    return _refused(whole, overflow)


def _refused(whole: list[Failure], overflow: timedelta) -> Line:
    """Nobody's line, the batch as a whole.

    What passes by itself, or is a matter of the account, is nobody's failure
    however often it happens. A refusal that gives no such reason may be due to
    one of its items: it is believed to be nobody's only so many times.
    """
    waits = [failure.retry_after for failure in whole if failure.retry_after is not None]
    back = max([overflow, BACK_PRESSURE, *waits])
    for failure in whole:
        if failure.retryable or failure.opens_breaker:
            return Line(back=back, code=str(failure.error_class))
    return Line(failure=whole[0] if whole else UNEXPLAINED, back=back, code=REFUSED)


def _code(failures: list[Failure]) -> str:
    return str(failures[0].error_class) if failures else REFUSED


def _alerts(made: Plan, batch: Leased, state: BatchState, sheet: Sheet, without: int) -> None:
    if sheet.unknown:
        made.alerts.append(("batch_items_unknown", {"items": sheet.unknown}))
    if sheet.doubled:
        made.alerts.append(("batch_items_doubled", {"items": sheet.doubled}))
    if made.missing:
        counts: dict[str, object] = {"submitted": batch.item_count, "found": sheet.found, "missing": without}
        made.alerts.append(("batch_count_mismatch", counts))
    if state.phase is Phase.COMPLETED:
        return
    whole = [line.failure for line in state.bad_lines if line.index is None]
    made.breaker = next((str(failure.error_class) for failure in whole if failure.opens_breaker), None)
    made.code = _code([line.failure for line in state.bad_lines]) if state.phase is Phase.FAILED else "BATCH_EXPIRED"
    if without:
        facts: dict[str, object] = {"status": state.provider_status, "items": without, "code": made.code}
        made.alerts.append(("batch_ended_early", facts))
