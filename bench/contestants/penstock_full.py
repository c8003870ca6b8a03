"""Penstock with the full audit: one append-only row for every move of every job."""

from __future__ import annotations

from bench.contestants.penstock import Penstock
from penstock import Audit


class PenstockFull(Penstock):
    """The same engine, every move written down."""

    name = "penstock-full"
    audit = Audit.FULL


contestant = PenstockFull()
