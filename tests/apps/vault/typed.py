"""The type `enrichment` as a worker tells it to the database, for tests without a worker."""

import json
from typing import Final

from penstock.contract.contract_types import enrichment

_POLICY: Final = enrichment()
TYPE_ROW: Final = (
    "insert into penstock.types (job_type, policy, stages, max_attempts, audited, channel, stale_counts_attempt) "
    f"values ('enrichment', '{json.dumps(_POLICY.to_json())}', '{{enrich}}', 4, true, 'litevault_jobs', false) "
    "on conflict do nothing"
)
