"""The steps of an execution, in the order of the contract."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.apps.rewrite import execution, repository
from penstock.apps.rewrite.evaluation import evaluate
from tests.apps.rewrite.conftest import MakeWorld, World
from tests.apps.rewrite.rewriter import answer

TAIL = ["answered", "language", "lexicon", "output stored", "request completed", "completed"]
STEPS = {
    "async": ["unit locked", "processing", "asked", *TAIL],
    "batch": ["unit locked", "processing", "asked", "unit locked", "batch_submitted", *TAIL],
}
# The lock of the unit is taken by the trigger before this one: names decide the order.
WATCH = """
create table public.steps (at timestamptz default clock_timestamp(), step text);
grant insert on public.steps to penstock_worker;
create function public.step() returns trigger language plpgsql as $$
begin
    insert into public.steps (step) values (case tg_when when 'BEFORE' then 'unit locked' else new.status end);
    return new;
end $$;
create trigger rewrite_unit_lock_seen before update on penstock.jobs for each row
    when (old.status <> new.status and new.status in ('processing', 'batch_submitted'))
    execute function public.step();
create trigger zz_moved after update on penstock.jobs for each row when (old.status <> new.status)
    execute function public.step();
"""


class Steps:
    """What happened when, here and in the database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._seen: list[tuple[float, str]] = []

    def note(self, step: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """*call*, and a note that it came to it for the first time."""

        def noted(*args: Any, **kwargs: Any) -> Any:
            if step not in [known for _, known in self._seen]:
                self._seen.append((time.time(), step))
            return call(*args, **kwargs)

        return noted

    def watch(self, module: Any, name: str, step: str) -> None:
        """Note when *name* is called."""
        self._patch.setattr(module, name, self.note(step, getattr(module, name)))

    async def all(self, world: World) -> list[str]:
        """Both in one line."""
        rows = await world.owner.fetch("select extract(epoch from at)::float8, step from public.steps")
        return [step for _, step in sorted([*self._seen, *(tuple(row) for row in rows)])]


@pytest.mark.contract("L-47", "A-39", "A-44")
@pytest.mark.parametrize("mode", STEPS)
async def test_the_steps_come_in_the_order_of_the_contract(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    world: World = await make_world({"execution_mode": mode})
    await world.owner.execute(WATCH)
    steps = Steps(monkeypatch)
    steps.watch(execution, "request_of", "asked")
    steps.watch(evaluate, "_locale", "language")
    steps.watch(evaluate, "_lexicon", "lexicon")
    steps.watch(repository, "fill_slot", "output stored")
    steps.watch(repository, "complete_request", "request completed")
    world.emulator.answers.function = steps.note("answered", answer)

    await world.send(await world.home())
    await world.through()

    assert await steps.all(world) == STEPS[mode]
