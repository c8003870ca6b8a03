"""A changelist criticised once, and everyone told once.

    from penstock.apps.review import review_app

    reviews = review_app()                         # settings from the environment
    await reviews.create_review(idempotency_key=..., changelist_id="shop:4f1c2aa", recipients=[...])

    penstock worker penstock.apps.review:app

Importing this costs next to nothing; what is named here is loaded when it is
asked for, and `app` is built from the environment then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.apps.lazy import lazily

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.apps.review.application import Reviews, review_app, reviews
    from penstock.apps.review.creation import Created
    from penstock.apps.review.models import Finding, Recipient, Review

__all__ = ["Created", "Finding", "Recipient", "Review", "Reviews", "review_app", "reviews"]

_HERE: Final[Mapping[str, str]] = {
    "Reviews": "application",
    "review_app": "application",
    "reviews": "application",
    "Created": "creation",
    "Finding": "models",
    "Recipient": "models",
    "Review": "models",
}


__getattr__ = lazily(__name__, _HERE, "reviews")
