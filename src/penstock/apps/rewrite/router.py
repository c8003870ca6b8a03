"""Where a rewrite goes: a pure function over a table, and nothing in it could hold a message (Q-88).

Rules are read from the top and the first that matches wins; the default is for
everything else. A route has no second choice in it: what its provider refuses
is refused, and nobody else is asked (Q-71).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.resources import files
from typing import Annotated, Any, Final, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from penstock.apps.rewrite.models import KnownLocale, Lane, RoutingDecisionV1, Strength, Surface
from penstock.apps.rewrite.prompts import versions
from penstock.contract.calls import Execution, Route
from penstock.contract.errors import Failed, SettingsInvalid
from penstock.contract.json_settings import json_of
from penstock.providers.endpoints import checked_url
from penstock.providers.registry import KINDS

ANY: Final = "*"
_MEMBERS: Final = tuple(RoutingDecisionV1.model_fields)
OWNERS: Final = {"openai": "openai", "google": "gemini"}  # whose adapters lead to a provider of the contract


M = TypeVar("M", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


# A version is a number: no word of a message would pass for one.
PolicyVersion = Annotated[str, StringConstraints(pattern=r"^v[0-9]{1,3}(\.[0-9]{1,3})?$")]


class RoutingInput(_Strict):
    """All that the router is told: words of closed lists, two languages and a number; no room for text (Q-88)."""

    surface: Surface
    lane: Lane
    source_locale: KnownLocale
    target_locale: KnownLocale
    rewrite_strength: Strength
    policy_version: PolicyVersion | None = None

    @model_validator(mode="after")
    def _lane_agrees(self) -> Self:
        if (self.source_locale == self.target_locale) is not (self.lane is Lane.SAME_LANGUAGE):
            raise ValueError("the lane follows from the equality of the two locales")
        return self


def _listed(value: object) -> object:
    """One word is a list of one; `*` is no condition at all."""
    if value == ANY:
        return None
    return [value] if isinstance(value, str) else value


_SOME: Final = Field(min_length=1)
Surfaces = Annotated[Annotated[frozenset[Surface], _SOME] | None, BeforeValidator(_listed)]
Lanes = Annotated[Annotated[frozenset[Lane], _SOME] | None, BeforeValidator(_listed)]
Locales = Annotated[Annotated[frozenset[KnownLocale], _SOME] | None, BeforeValidator(_listed)]
Strengths = Annotated[Annotated[frozenset[Strength], _SOME] | None, BeforeValidator(_listed)]
Policies = Annotated[Annotated[frozenset[PolicyVersion], _SOME] | None, BeforeValidator(_listed)]


class Condition(_Strict):
    """What a rule asks of its input; a member that is absent, or `*`, asks nothing."""

    surface: Surfaces = None
    lane: Lanes = None
    source_locale: Locales = None
    target_locale: Locales = None
    rewrite_strength: Strengths = None
    policy_version: Policies = None

    def holds(self, given: RoutingInput) -> bool:
        """Whether every member that is named has the value of *given* in it."""
        asked: dict[str, frozenset[str] | None] = dict(self)
        return all(values is None or getattr(given, member) in values for member, values in asked.items())


class Rule(_Strict):
    """One row of the table."""

    name: str
    when: Condition
    route: RoutingDecisionV1


class RoutingTable(_Strict):
    """The rules in their order, and the route of whatever none of them asks for."""

    default: RoutingDecisionV1
    rules: tuple[Rule, ...] = ()


def route(given: RoutingInput, table: RoutingTable) -> RoutingDecisionV1:
    """The route of the first rule that holds, else the default. The same input gives the same answer (L-75)."""
    return next((rule.route for rule in table.rules if rule.when.holds(given)), table.default)


class Located(Protocol):
    """What has a lane and two locales: a request, a job, the input of the router."""

    @property
    def lane(self) -> Any:
        """Same or cross language."""

    @property
    def source_locale(self) -> str:
        """The sender's language."""

    @property
    def target_locale(self) -> str:
        """The recipient's."""


def to_route(decision: RoutingDecisionV1, located: Located) -> Route:
    """The route of a call, of which the group key is made (A-52): all of the decision, unchanged (A-42).

    The contract has two providers and `other`; behind `other` stands whoever
    owns the adapter, so that the key that is sent is that owner's.
    """
    kind = KINDS.get(decision.adapter_kind)
    behind = kind.provider if kind and kind.provider not in OWNERS.values() else decision.provider
    return Route(
        provider=behind if decision.provider == "other" else decision.provider,
        model=decision.model,
        adapter=decision.adapter_kind,
        base_url=decision.base_url,
        execution=Execution(decision.execution_mode),
        prompt_version=decision.prompt_version,
        policy_version=decision.policy_version,
        lane=str(located.lane),
        source_locale=located.source_locale,
        target_locale=located.target_locale,
    )


def load_table(source: str | None = None, *, kinds: Collection[str] = KINDS.keys()) -> RoutingTable:
    """Read a table from *source*: JSON text, or the path of a file that holds it. None is the table that ships.

    *kinds* are the adapters there are; an application with adapters of its own
    names them. A table that is wrong anywhere is refused whole, and the error
    says at which rule and which member.
    """
    table = _object("the whole", _parsed(source), ("rules", "default"))
    if "default" not in table:
        raise SettingsInvalid('the routing table has no "default"; give it the route of what no rule asks for')
    rules = table.get("rules", [])
    if not isinstance(rules, list):
        raise SettingsInvalid('"rules" of the routing table must be a list of rules')
    read = tuple(_rule(number, entry, kinds) for number, entry in enumerate(rules, 1))
    return RoutingTable(default=_decision("the default", table["default"], kinds), rules=read)


def _rule(number: int, entry: object, kinds: Collection[str]) -> Rule:
    where = f"rule {number}"
    read = _object(where, entry, ("name", "when", "route"))
    name = read.get("name", where)
    if not isinstance(name, str) or not name:
        raise SettingsInvalid(f"{where} of the routing table: name must be a few words")
    where = where if name == where else f"{where} ({name[:40]})"
    if "route" not in read:
        raise SettingsInvalid(f"{where} of the routing table has no route")
    when = _checked(where, "when", Condition, read.get("when", {}))
    return Rule(name=name, when=when, route=_decision(where, read["route"], kinds))


def _decision(where: str, entry: object, kinds: Collection[str]) -> RoutingDecisionV1:
    """All nine members, none of them left to a default, and an adapter that leads to the provider."""
    found = _object(where, entry, _MEMBERS)
    missing = [member for member in _MEMBERS if member not in found]
    if missing:
        raise SettingsInvalid(f"{where} of the routing table lacks {', '.join(missing)}; a route gives all nine")
    decision = _checked(where, "route", RoutingDecisionV1, found, strict=True)
    for member, problem in _problems(decision, kinds):
        raise SettingsInvalid(f"{where} of the routing table: {member} {problem}")
    return decision


def _problems(decision: RoutingDecisionV1, kinds: Collection[str]) -> Iterator[tuple[str, str]]:
    if decision.adapter_kind not in kinds:
        yield "adapter_kind", f"is unknown; choose one of {', '.join(sorted(kinds))}"
    elif not _agrees(decision):
        yield "provider", f"does not agree with adapter_kind {decision.adapter_kind}, which leads to somebody else"
    if decision.prompt_version not in versions():
        yield "prompt_version", f"is unknown; there is {', '.join(versions())}"
    if decision.base_url is not None and not _plain(decision.base_url):
        yield "base_url", "must be an address without name, password, query or fragment"


def _agrees(decision: RoutingDecisionV1) -> bool:
    """Whether the adapter leads to the provider; `other` may speak anybody's API at an address of its own."""
    kind = KINDS.get(decision.adapter_kind)
    if kind is None or decision.provider != "other":
        return kind is None or OWNERS.get(decision.provider) == kind.provider
    return decision.base_url is not None or kind.provider not in OWNERS.values()


def _plain(url: str) -> bool:
    try:
        checked_url(url, "", (urlsplit(url).hostname or "",))
    except (Failed, ValueError):
        return False
    return True


def _checked(where: str, part: str, model: type[M], entry: object, *, strict: bool = False) -> M:
    """*entry* as *model*; the refusal names the member and repeats no value."""
    problem = None
    try:
        return model.model_validate(entry, strict=strict)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        problem = f"{'.'.join(str(step)[:40] for step in (part, *first['loc'][:1]))}: {first['msg']}"
    raise SettingsInvalid(f"{where} of the routing table: {problem}")


def _object(where: str, entry: object, members: Collection[str]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise SettingsInvalid(f"{where} of the routing table must be a JSON object")
    unknown = sorted(entry.keys() - set(members))
    if unknown:
        raise SettingsInvalid(
            f"{where} of the routing table has an unknown member {unknown[0][:40]!r}; it may have {', '.join(members)}"
        )
    return entry


def _parsed(source: str | None) -> object:
    text = (files("penstock.apps.rewrite") / "routes.json").read_text() if source is None else source
    return json_of(text, "the routing table")
