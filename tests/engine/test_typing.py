"""What a type checker tells the author of a handler; mypy reads this file in `make lint`.

A `type: ignore` that is not needed is an error there, so each one stands for
a mistake that is caught.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock import Job, Penstock
from penstock.contract.errors import SettingsInvalid


def test_a_policy_is_checked_where_it_is_declared() -> None:
    app = Penstock("postgresql://nowhere/none")
    app.type("words", dispatch="scheduled", audit="full", stages=["fetch", "tell"], lease=timedelta(minutes=5))
    with pytest.raises(SettingsInvalid, match="a policy has no 'atempts'; did you mean attempts"):
        app.type("misspelt", atempts=3)  # type: ignore[call-arg]
    with pytest.raises(SettingsInvalid):
        app.type("seconds", lease=300)  # type: ignore[arg-type]
    with pytest.raises(SettingsInvalid):
        app.type("letters", stages="fetch")  # type: ignore[arg-type]
    with pytest.raises(SettingsInvalid):
        app.type("word", dispatch="later")  # type: ignore[arg-type]


def length_when_known(job: Job, text: str | None) -> int:
    """A snooze does not come back, so what follows may rely on the question."""
    if text is None:
        job.snooze(timedelta(minutes=1))
    return len(text)


def length_or_end(job: Job, text: str | None) -> int:
    """Nor does a cancel."""
    if text is None:
        job.cancel()
    return len(text)
