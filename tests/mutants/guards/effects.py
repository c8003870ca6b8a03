"""Effects: intent, perform, mark; settled before ever repeated."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import ENGINE, FAULTS, SCHEMA, SQL, STORE, SUSPECTS, Guard

EFFECTS: Final = "tests/engine/effects/test_effects.py"
TRANSACTIONS: Final = "tests/engine/effects/test_transactions.py"

GUARDS: Final = (
    Guard(
        "one transaction at a time ends a stage",
        f"{ENGINE}/job.py",
        "        if self._in_transaction:\n",
        "        if self._running.recorded:\n",
        (
            "tests/engine/effects/test_second_transactions.py::test_a_transaction_inside_another_is_refused_and_nothing_of_both_is_kept",
        ),
    ),
    Guard(
        "the intent comes first",
        f"{ENGINE}/effects.py",
        "    intent = await effect.intend()\n    if intent.standing is Standing.DONE:",
        "    result = await perform(effect.token)\n"
        "    intent = await effect.intend()\n"
        "    return await effect.mark(result)\n"
        "    if intent.standing is Standing.DONE:",
        (f"{EFFECTS}::test_the_intent_is_committed_before_anything_happens_outside",),
    ),
    Guard(
        "settled before it is repeated",
        f"{ENGINE}/effects.py",
        "if intent.standing is Standing.AGAIN:",
        "if intent.standing is Standing.LOST:",
        (f"{EFFECTS}::test_a_reply_that_was_lost_is_looked_up_and_not_sent_again",),
    ),
    Guard(
        "a doubt goes to a person",
        f"{ENGINE}/effects.py",
        "        if repeat:\n            await self._ledger.note",
        "        if True:\n            await self._ledger.note",
        (f"{EFFECTS}::test_a_doubt_that_nobody_can_settle_goes_to_a_person",),
    ),
    Guard(
        "what is done stays done",
        f"{SCHEMA}/05_effects.sql",
        "if known.state = 'done' then\n            verdict",
        "if false then\n            verdict",
        (f"{EFFECTS}::test_a_done_effect_is_remembered_and_not_repeated",),
    ),
    Guard(
        "fence of a mark",
        f"{SQL}/effects/mark.sql",
        "and e.claim_seq = $3",
        "and $3::bigint is not null",
        (f"{FAULTS}/test_effects.py::test_a_zombie_cannot_mark_what_its_heir_is_performing",),
    ),
    Guard(
        "an effect in somebody's hand is left there",
        f"{SCHEMA}/05_effects.sql",
        "and penstock.intent_held(known, at) then\n            verdict := 'busy'",
        "and false then\n            verdict := 'busy'",
        ("tests/engine/effects/test_recovery.py::test_another_job_does_not_take_over_an_intent_that_holds_its_claim",),
    ),
    Guard(
        "a mark is never cancelled",
        f"{ENGINE}/effects.py",
        "await uninterrupted(self._write_mark(",
        "await (self._write_mark(",
        (f"{FAULTS}/test_effects.py::test_a_mark_under_way_is_finished_although_its_job_is_canceled",),
    ),
    Guard(
        "reapers leave open intents alone",
        f"{SUSPECTS}/02_reap.sql",
        "and e.claim_seq = j.claim_seq and e.holds_claim",
        "and e.claim_seq = j.claim_seq and false",
        ("tests/engine/effects/test_recovery.py::test_a_job_with_an_open_intent_is_left_alone_by_every_reaper",),
    ),
    Guard(
        "a transaction of a lost claim rolls back",
        f"{STORE}/claims.py",
        'if await db.fetchval(sql("claims/finish"), claim.job_id, claim.claim_seq, worker) is None:',
        'if await db.fetchval(sql("claims/finish"), claim.job_id, claim.claim_seq, worker) is Ellipsis:',
        ("tests/engine/effects/test_transactions.py::test_a_lost_lease_rolls_everything_back",),
    ),
    Guard(
        "an operator cannot resolve what may be happening",
        f"{SCHEMA}/05_effects.sql",
        "if penstock.intent_held(known, at) then\n        raise",
        "if false then\n        raise",
        ("tests/cli/test_effects.py::test_an_effect_that_a_live_claim_has_in_hand_is_refused",),
    ),
)
