"""Fences: a write names the claim it belongs to."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import SQL, STORE, Guard

CLAIMS: Final = "tests/engine/worker/test_claims.py"
STALE: Final = "tests/engine/worker/test_claims.py::test_no_write_succeeds_without_the_exact_claim[fence]"
STRANGER: Final = "tests/engine/worker/test_claims.py::test_no_write_succeeds_without_the_exact_claim[worker]"

GUARDS: Final = (
    Guard(
        "fence of complete",
        f"{SQL}/claims/complete.sql",
        "(job.job_id, job.claim_seq) in (select pair.job_id, pair.claim_seq",
        "(job.job_id, 1) in (select pair.job_id, 1",
        (STALE,),
    ),
    Guard(
        "a lost claim is told from a newer one of its job",
        f"{STORE}/claims.py",
        "if (claim.job_id, claim.claim_seq) not in moved",
        "if claim.job_id not in {job_id for job_id, _ in moved}",
        (f"{CLAIMS}::test_of_two_claims_of_one_job_in_a_set_the_newer_one_is_recorded[complete]",),
    ),
    Guard(
        "fence of renew",
        f"{SQL}/claims/renew.sql",
        " and held.claim_seq = job.claim_seq",
        "",
        (STALE,),
    ),
    Guard(
        "fence of requeue",
        f"{SQL}/claims/requeue.sql",
        " and v.claim_seq = job.claim_seq",
        "",
        (STALE,),
    ),
    Guard(
        "fence of fail",
        f"{SQL}/claims/fail.sql",
        " and v.claim_seq = job.claim_seq",
        "",
        (STALE,),
    ),
    Guard(
        "fence of finish",
        f"{SQL}/claims/finish.sql",
        "job.claim_seq = $2",
        "$2::bigint is not null",
        (STALE,),
    ),
    Guard(
        "fence of advance",
        f"{SQL}/claims/advance.sql",
        "job.claim_seq = $2",
        "$2::bigint is not null",
        (STALE,),
    ),
    Guard(
        "fence of a handler's cancel",
        f"{SQL}/claims/cancel.sql",
        "job.claim_seq = $2",
        "$2::bigint is not null",
        (STALE,),
    ),
    Guard(
        "owner's name in complete",
        f"{SQL}/claims/complete.sql",
        "and job.claimed_by = $3",
        "and $3::text is not null",
        (STRANGER,),
    ),
    Guard(
        "owner's name in renew",
        f"{SQL}/claims/renew.sql",
        "and job.claimed_by = $3",
        "and $3::text is not null",
        (STRANGER,),
    ),
    *(
        Guard(
            f"a claim raises the fence: {name}",
            f"{SQL}/claims/{statement}.sql",
            "claim_seq = job.claim_seq + 1",
            "claim_seq = greatest(job.claim_seq, 1)",
            (f"tests/store/test_takes.py::test_every_claim_has_a_higher_fence_a_lease_and_a_name[{name}]",),
        )
        for statement, name in (("take", "several"), ("take_of_one", "one"))
    ),
)
