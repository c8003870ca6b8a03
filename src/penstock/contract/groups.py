"""Which jobs may share a provider batch, and which may share one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.contract.calls import Route


class GroupKey(NamedTuple):
    """The eight parts, in order (A-52, L-52)."""

    provider: str
    model: str
    prompt_version: str
    policy_version: str
    execution_mode: str
    lane: str
    source_locale: str
    target_locale: str


class BatchKey(NamedTuple):
    """A group, split further by where its artifact goes (C-33)."""

    group: GroupKey
    adapter: str
    base_url: str


def group_key(route: Route) -> GroupKey:
    """The group that a job with *route* belongs to."""
    return GroupKey(
        route.provider,
        route.model,
        route.prompt_version,
        route.policy_version,
        str(route.execution),
        route.lane,
        route.source_locale,
        route.target_locale,
    )


def batch_key(route: Route) -> BatchKey:
    """Jobs with the same key go into the same provider batch, whoever they belong to (A-58)."""
    return BatchKey(group_key(route), route.adapter, route.base_url or "")


def may_micro_batch(routes: Sequence[Route], *, supported: bool) -> bool:
    """Whether these requests may share one provider call (C-34, A-51).

    One call carries separate items, each with a prompt of its own; it never
    merges the texts of several users. No part of the eight may differ.
    """
    return supported and bool(routes) and len({batch_key(route) for route in routes}) == 1
