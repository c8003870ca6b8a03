"""What producers and pollers of before run, word for word; only the parameters are spelled as the driver wants them."""

from __future__ import annotations

from typing import Final

CLAIM: Final = """
UPDATE enrichment_outbox
SET status = 'IN_PROGRESS',
    locked_by = %(worker_id)s,
    locked_at = NOW(),
    lease_expires_at = NOW() + INTERVAL '5 minutes'
WHERE id = (
    SELECT id FROM enrichment_outbox
    WHERE status = 'PENDING'
      AND run_at <= NOW()
    ORDER BY created_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING *
"""
RENEW: Final = """
UPDATE enrichment_outbox SET lease_expires_at = NOW() + INTERVAL '5 minutes'
WHERE id = %(job_id)s AND locked_by = %(worker_id)s
"""
RECLAIM: Final = """
UPDATE enrichment_outbox
SET status = 'PENDING', locked_by = NULL, lease_expires_at = NULL
WHERE status = 'IN_PROGRESS' AND lease_expires_at < NOW()
"""
MARK_FAILED: Final = """
UPDATE enrichment_outbox
SET status = 'PENDING',
    attempt_count = attempt_count + 1,
    run_at = NOW() + %(backoff)s,
    last_error_code = %(error_code)s,
    last_error_message = %(error_message)s,
    locked_by = NULL,
    lease_expires_at = NULL
WHERE id = %(job_id)s
"""
# From before: seven columns, no lease, no name, no time to run at.
OLD_INSERT: Final = """
INSERT INTO enrichment_outbox (id, item_id, status, attempt_count, created_at)
VALUES (%(id)s, %(item_id)s, 'PENDING', 0, NOW())
"""
OLD_CLAIM: Final = """
UPDATE enrichment_outbox SET status = 'IN_PROGRESS', claimed_at = NOW()
WHERE id = (
    SELECT id FROM enrichment_outbox WHERE status = 'PENDING' ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING id, item_id, attempt_count
"""
OLD_DONE: Final = "UPDATE enrichment_outbox SET status = 'DONE' WHERE id = %(job_id)s"
OLD_RETRY: Final = """
UPDATE enrichment_outbox
SET status = 'PENDING', attempt_count = attempt_count + 1, last_error = %(error)s
WHERE id = %(job_id)s
"""
OLD_DEAD: Final = "UPDATE enrichment_outbox SET status = 'FAILED', last_error = %(error)s WHERE id = %(job_id)s"
