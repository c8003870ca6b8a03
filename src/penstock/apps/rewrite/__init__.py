"""Complaints rewritten for one recipient, in their language, at batch price.

    from penstock.apps.rewrite import rewrite_app

    rewrites = rewrite_app()                       # settings from the environment
    await rewrites.submit_rewrite(home_id=..., sender_user_id=..., recipient_user_ids=[...], text=..., surface=...)

    PENSTOCK_APP=penstock.apps.rewrite:app penstock scheduler

Importing this costs next to nothing; what is named here is loaded when it is
asked for, and `app` is built from the environment then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.apps.lazy import lazily

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.apps.rewrite.application import Rewrites, rewrite_app, rewrites
    from penstock.apps.rewrite.orchestrator import Output, Submitted
    from penstock.apps.rewrite.refusals import IdempotencyConflict, RewriteRefused

__all__ = ["IdempotencyConflict", "Output", "RewriteRefused", "Rewrites", "Submitted", "rewrite_app", "rewrites"]

_HERE: Final[Mapping[str, str]] = {
    "Rewrites": "application",
    "rewrite_app": "application",
    "rewrites": "application",
    "Output": "orchestrator",
    "Submitted": "orchestrator",
    "IdempotencyConflict": "refusals",
    "RewriteRefused": "refusals",
}


__getattr__ = lazily(__name__, _HERE, "rewrites")
