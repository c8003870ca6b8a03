"""Deliveries: read again, settled, sent, marked; nobody given up before somebody has looked."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import SCHEMA, Guard

APP: Final = "src/penstock/apps/review"
RULES: Final = f"{APP}/migrations/sql/0001_review/04_deliveries_rules.sql"
HERE: Final = "tests/apps/review/notify"
DOUBTS: Final = f"{HERE}/test_doubts.py"
ENDINGS: Final = f"{HERE}/test_endings.py"
SWEEP: Final = f"{HERE}/test_sweep.py"
TELLING: Final = f"{HERE}/test_telling.py"

GUARDS: Final = (
    Guard(
        "a delivery is read again before it is sent",
        f"{APP}/ledger.py",
        "self.row = row = await deliveries.reread(tx, self.row.delivery_id)",
        "row = self.row",
        (
            f"{TELLING}::test_a_retry_reads_the_row_again_before_it_sends",
            f"{DOUBTS}::test_a_row_that_somebody_marks_in_the_meantime_is_not_sent",
        ),
    ),
    Guard(
        "a delivery that may have been sent is settled first",
        f"{APP}/ledger.py",
        "if before > 0 or row.notification_id is not None:",
        "if before < 0:",
        (
            f"{DOUBTS}::test_the_row_decides_even_when_the_engines_ledger_has_forgotten_the_send",
            f"{DOUBTS}::test_an_id_without_a_time_is_looked_up_by_that_id_before_anything_is_sent",
        ),
    ),
    Guard(
        "an intent of a delivery is counted once",
        f"{APP}/ledger.py",
        "written = row.intent_id == nonce",
        "written = False",
        (f"{DOUBTS}::test_an_intent_whose_reply_was_lost_is_counted_once_and_not_taken_for_an_earlier_send",),
    ),
    Guard(
        "fence of a delivery's mark",
        f"{APP}/ledger.py",
        "            if not await store.mark(tx, effect_key, claim, result, outcome):\n                return False\n",
        "            await store.mark(tx, effect_key, claim, result, outcome)\n",
        (f"{DOUBTS}::test_a_zombie_marks_neither_the_effect_nor_the_row",),
    ),
    Guard(
        "effect and delivery are marked together",
        f"{APP}/ledger.py",
        "if not await store.mark(tx, effect_key",
        "if not await store.mark(db, effect_key",
        (f"{DOUBTS}::test_a_mail_whose_mark_failed_looks_unsent_and_is_found_and_filled_in_without_a_second_one",),
    ),
    Guard(
        "looked up before a delivery fails",
        f"{APP}/notify.py",
        "            if row.open and row.in_doubt:\n",
        "            if row.open and row.waived:\n",
        (f"{ENDINGS}::test_before_the_last_attempt_ends_a_send_in_doubt_is_looked_up",),
    ),
    Guard(
        "a refusal does not hide an earlier send",
        f"{APP}/notify.py",
        "if now.in_doubt and settling.way(",
        "if now.waived and settling.way(",
        (f"{ENDINGS}::test_a_refusal_after_a_lost_reply_does_not_hide_that_the_first_one_came_through",),
    ),
    Guard(
        "every required recipient is told",
        f"{APP}/notify.py",
        "absent = [row for row in rows if row.required and not row.told]",
        "absent = [row for row in rows if row.required and row.status == 'reconciling']",
        (f"{ENDINGS}::test_one_bad_recipient_fails_alone_and_the_dead_letter_names_the_row",),
    ),
    Guard(
        "no job completes over an untold recipient",
        RULES,
        "where w.review_id = id and w.required and d.notified_at is null and d.waived_by is null) then",
        "where w.review_id = id and w.required and false) then",
        (f"{ENDINGS}::test_no_statement_completes_a_job_that_has_not_told_everybody_required",),
    ),
    Guard(
        "a mark stops sending",
        RULES,
        "(old.status <> 'pending' or old.notified_at is not null) then",
        "(old.status <> 'pending') then",
        (f"{DOUBTS}::test_no_statement_begins_a_send_of_a_row_that_is_marked",),
    ),
    Guard(
        "what is being looked into is not sent",
        RULES,
        "(old.status <> 'pending' or old.notified_at is not null) then",
        "(old.notified_at is not null) then",
        (f"{SWEEP}::test_a_suspect_row_is_reconciling_first_and_every_send_of_it_is_refused",),
    ),
    Guard(
        "a job that dies without its handler leaves a doubt",
        RULES,
        "where d.review_id = id and d.status = 'pending' and d.send_count > 0",
        "where d.review_id = id and d.status = 'pending' and d.send_count < 0",
        (f"{ENDINGS}::test_a_job_that_dies_without_its_handler_leaves_its_sends_in_doubt_and_not_as_never_made",),
    ),
    Guard(
        "absence is an authenticated not-found",
        f"{APP}/settling.py",
        "raise Failed(FailureClass.UPSTREAM_5XX, why, retry_after=failure.retry_after) from error",
        "return None",
        (
            f"{SWEEP}::test_absence_is_believed_of_an_authenticated_not_found_and_of_nothing_less",
            f"{DOUBTS}::test_a_lookup_that_fails_sends_nothing_and_the_attempt_is_retried",
        ),
    ),
    Guard(
        "a key settles within its window",
        f"{APP}/settling.py",
        "row.now < row.first_send_at + window",
        "row.now > row.first_send_at - window",
        (f"{DOUBTS}::test_outside_its_window_a_key_settles_nothing_and_the_mail_is_held",),
    ),
    Guard(
        "a doubt that nobody can settle is held where that is the policy",
        f"{APP}/settling.py",
        "return Way.REPEAT if channel.when_uncertain is WhenUncertain.SEND_AGAIN else Way.HOLD",
        "return Way.REPEAT",
        (f"{DOUBTS}::test_a_lost_reply_is_settled_by_what_the_channel_declares_and_never_doubled",),
    ),
    Guard(
        "one delivery for changelist, recipient and version",
        f"{APP}/migrations/sql/0001_review/02_deliveries.sql",
        "constraint deliveries_identity unique (changelist_id, recipient, review_version)",
        "constraint deliveries_identity check (review_version > 0)",
        (f"{TELLING}::test_there_is_one_row_for_changelist_recipient_and_version",),
    ),
    Guard(
        "what was reopened is performed again",
        f"{SCHEMA}/05_effects.sql",
        "where e.effect_key = p_effect_key and e.state = 'done';",
        "where e.effect_key = p_effect_key and e.state = 'nothing';",
        (f"{SWEEP}::test_a_mark_without_a_send_is_found_cleared_and_sent_once_with_one_alert",),
    ),
)
