"""Failures: what is retried, how long it waits, and what is kept of it."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import CONTRACT, ENGINE, WALLS, Guard

ANY_ERROR: Final = "tests/contract/test_classify_any_error.py"
UNREADABLE: Final = "tests/engine/retries/test_unreadable.py"
STEPS: Final = "tests/engine/dead_letters/test_steps.py"

GUARDS: Final = (
    Guard(
        "retry budget",
        f"{CONTRACT}/verdicts.py",
        "if attempts >= budget:",
        "if attempts > budget:",
        ("tests/contract/test_classify.py::test_an_upstream_error_is_retried_until_the_fifth_failure_ends_the_job",),
    ),
    Guard(
        "what no retry can mend is not retried",
        f"{CONTRACT}/verdicts.py",
        "if not failure.retryable:",
        "if attempts > budget:",
        ("tests/contract/test_classify.py::test_bad_data_ends_the_job_at_its_first_attempt",),
    ),
    Guard(
        "whatever a look at an exception raises is judged too",
        f"{CONTRACT}/classify.py",
        "    except BaseException:\n",
        "    except ZeroDivisionError:\n",
        (f"{ANY_ERROR}::test_whatever_a_look_at_an_exception_raises_it_is_a_bug_that_nobody_recognises",),
    ),
    Guard(
        "an outcome that cannot be read is a failure",
        f"{ENGINE}/failing.py",
        "    except BaseException:\n        return None\n",
        "    except ZeroDivisionError:\n        return None\n",
        (f"{UNREADABLE}::test_an_exception_that_cannot_be_read_ends_its_job_as_a_bug_of_the_handler",),
    ),
    Guard(
        "ceiling of Retry-After",
        f"{CONTRACT}/backoff.py",
        "return max(base, min(retry_after, CEILING))",
        "return max(base, retry_after)",
        ("tests/contract/test_backoff.py::test_no_upstream_may_impose_more_than_five_minutes",),
    ),
    Guard(
        "payload cap",
        f"{CONTRACT}/payloads.py",
        "if size > limits.max_bytes:",
        "if size < 0:",
        ("tests/contract/test_payloads.py::test_a_payload_too_large_is_refused_with_its_size_and_the_way_out",),
    ),
    Guard(
        "redactor",
        "src/penstock/telemetry/masks.py",
        'return _literal(match) if kind == "quoted" else _MASKS[str(kind)](match[0])',
        "return match[0] or str(kind)",
        ("tests/telemetry/test_redaction.py::test_a_key_or_token_is_masked_wherever_it_stands",),
    ),
    Guard(
        "two operators never take one step",
        f"{WALLS}/05_operators.sql",
        "where d.dead_letter_id = p_dead_letter_id for update",
        "where d.dead_letter_id = p_dead_letter_id",
        (f"{STEPS}::test_of_two_operators_at_once_one_takes_the_step",),
    ),
)
