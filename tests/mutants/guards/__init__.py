"""The guards: what keeps the promises, each with the narrowest tests that must miss it.

A row says which text of which file is the guard and what stands there without
it. A new guard is a new row in one of these files.
"""

from __future__ import annotations

from typing import Final

from tests.mutants.guards import (
    applications,
    batches,
    claiming,
    collecting,
    critics,
    database,
    deliveries,
    effects,
    enqueueing,
    failing,
    fences,
    lasting,
    leasing,
    limits,
    logins,
    policies,
    scenarios,
    suspects,
    walls,
)

GUARDS: Final = (
    *fences.GUARDS,
    *claiming.GUARDS,
    *leasing.GUARDS,
    *suspects.GUARDS,
    *lasting.GUARDS,
    *database.GUARDS,
    *failing.GUARDS,
    *effects.GUARDS,
    *enqueueing.GUARDS,
    *limits.GUARDS,
    *scenarios.GUARDS,
    *batches.GUARDS,
    *collecting.GUARDS,
    *deliveries.GUARDS,
    *critics.GUARDS,
    *applications.GUARDS,
    *walls.GUARDS,
    *logins.GUARDS,
    *policies.GUARDS,
)
