"""Job types as declared in Python: a policy and one handler per stage."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from penstock.contract.errors import ArgumentsInvalid, SettingsInvalid, UnknownType
from penstock.contract.policies import Dispatch
from penstock.contract.value_kinds import refuse_unless_kind
from penstock.engine.arguments import typed_decoder
from penstock.engine.batches.lane import LaneSchedule, LaneStage, handler_of
from penstock.engine.callables import is_async, layers
from penstock.telemetry.logs import allow_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.contract.policies import Policy

    Handler = Callable[..., Any]
    Decoder = Callable[[str], Any]

_PLAIN: Final = (inspect.Parameter.empty, Any, dict, list, object)


@dataclasses.dataclass(frozen=True, slots=True)
class StageHandler:
    """How one stage is run."""

    call: Handler
    decode: Decoder
    is_async: bool
    takes_job: bool
    takes_args: bool
    timeout: float | None  # seconds

    @property
    def typed(self) -> bool:
        """Whether the handler says what its arguments are made of."""
        return self.takes_args and self.decode is not _plain


class JobType:
    """A type with its handlers. Call it to call the handler of its (first) stage, as a plain function."""

    def __init__(self, policy: Policy, *, log_ids: Sequence[str] = ()) -> None:
        self.policy = policy
        refuse_unless_kind(f"log_ids of type {policy.job_type!r}", log_ids, list, tuple, hint=_as_log_ids)
        self.log_ids = tuple(log_ids)  # members of the payload that are opaque ids and may be logged
        self.handlers: dict[str, StageHandler] = {}
        self.lanes: dict[str, LaneStage] = {}  # stages that ask a model, in a batch or at once
        self.lane_schedule = LaneSchedule()
        self.on_lane: Callable[[JobType], object] = lambda _: None  # the application checks the lane's pace

    @property
    def name(self) -> str:
        """The type's name."""
        return self.policy.job_type

    def stage(self, name: str, *, args: Any = None) -> Callable[[Handler], Handler]:
        """Declare the handler of stage *name*; *args* names the argument type where annotations cannot."""
        if name not in self.policy.stages:
            raise SettingsInvalid(f"type {self.name!r} has the stages {', '.join(self.policy.stages)}, not {name!r}")

        def declare(handler: Handler) -> Handler:
            limit = self.policy.timeout_of(name)
            self.handlers[name] = _inspect(handler, args, None if limit is None else limit.total_seconds())
            return handler

        return declare

    def lane(
        self,
        stage: str,
        *,
        build: Handler,
        accept: Handler,
        persist: Handler | None = None,
        schema: Mapping[str, Any] | None = None,
        around: Handler | None = None,
        args: Any = None,
        **schedule: Any,
    ) -> LaneStage:
        """Declare *stage* as one that asks a model; *schedule* are fields of `LaneSchedule`.

        With *schema* every answer is JSON that fits it before `accept` sees it.
        *around* gives an async context manager that is held while a single
        call is under way.

        Such a type is scheduled: its submitter and its collector are bounded
        runs, and nothing else touches its jobs (C-23).
        """
        if self.policy.dispatch is not Dispatch.SCHEDULED:
            raise SettingsInvalid(
                f"type {self.name!r} has a batch lane, so it needs dispatch='scheduled', not {self.policy.dispatch}"
            )
        self.stage(stage, args=args)(build)
        built = self.handlers[stage]
        if not (built.takes_job and built.takes_args):
            raise SettingsInvalid(f"build of stage {stage!r} of type {self.name!r} must take (job, args)")
        lane = LaneStage(build, accept, persist, built.decode, schema, around)
        self.handlers[stage] = dataclasses.replace(built, call=handler_of(lane), is_async=True)
        self.lanes[stage] = lane
        if schedule:
            self.lane_schedule = LaneSchedule(**schedule)
        self.on_lane(self)
        return lane

    def handler(self, stage: str) -> StageHandler:
        """The handler of *stage*."""
        try:
            return self.handlers[stage]
        except KeyError:
            if stage in self.policy.stages:
                what = f"has no handler for stage {stage!r}; declare one with .stage({stage!r})"
            else:
                what = (
                    f"no longer has the stage {stage!r}, in which a job waits; deploy it again until such jobs are "
                    "gone, or replay their dead letters with a full restart"
                )
            raise SettingsInvalid(f"type {self.name!r} {what}") from None

    def require_handlers(self) -> None:
        """Refuse a type whose jobs would come to a stage that nobody runs; a type that is only enqueued needs none."""
        for stage in self.policy.stages:
            self.handler(stage)

    def check(self, payload: str) -> None:
        """Refuse a payload that a handler of this type could not read: `ArgumentsInvalid`."""
        for handler in self.handlers.values():
            if handler.typed:
                handler.decode(payload)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the handler itself, without the engine."""
        return self.handler(self.policy.stages[0]).call(*args, **kwargs)

    def __repr__(self) -> str:
        """Name and stages."""
        return f"<job type {self.name}: {', '.join(self.policy.stages)}>"


class Registry:
    """The types that one application knows."""

    def __init__(self) -> None:
        self._types: dict[str, JobType] = {}

    def add(self, job_type: JobType) -> JobType:
        """Register *job_type*; a name is taken once."""
        if job_type.name in self._types:
            raise SettingsInvalid(f"job type {job_type.name!r} is declared twice; a type has one declaration")
        self._types[job_type.name] = job_type
        allow_ids(job_type.log_ids)
        return job_type

    def get(self, name: str) -> JobType:
        """The type called *name*."""
        try:
            return self._types[name]
        except KeyError:
            raise UnknownType(name) from None

    def __contains__(self, name: object) -> bool:
        """Whether *name* is declared here."""
        return name in self._types

    def __iter__(self) -> Iterator[JobType]:
        """Every type, in the order of declaration."""
        return iter(self._types.values())

    def __len__(self) -> int:
        """How many types there are."""
        return len(self._types)


def _as_log_ids(value: object) -> str:
    return f'["{value}"] for one id' if isinstance(value, str) else '["order_id"]'


def _inspect(handler: Handler, declared: Any, timeout: float | None) -> StageHandler:
    if any(inspect.isgeneratorfunction(layer) or inspect.isasyncgenfunction(layer) for layer in layers(handler)):
        raise SettingsInvalid(f"handler {_name(handler)} is a generator: calling it would run nothing; use no `yield`")
    parameters = _parameters(handler)
    takes_job = len(parameters) == 2 or (len(parameters) == 1 and _is_job(parameters[0]))  # noqa: PLR2004
    takes_args = len(parameters) == 2 or (len(parameters) == 1 and not takes_job)  # noqa: PLR2004
    kind = declared
    if kind is None and takes_args:
        kind = _annotation(handler, parameters[-1])
    return StageHandler(
        call=handler,
        decode=_decoder(kind) if takes_args else json.loads,
        is_async=is_async(handler),
        takes_job=takes_job,
        takes_args=takes_args,
        timeout=timeout,
    )


def _parameters(handler: Handler) -> list[inspect.Parameter]:
    """The parameters that the engine fills, at most the first two; what comes behind them needs a default."""
    kinds = inspect.Parameter
    every = list(inspect.signature(handler).parameters.values())
    filled = [p for p in every if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)][:2]
    others = [p for p in every if p not in filled and p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    if any(p.default is p.empty for p in others):
        raise SettingsInvalid(
            f"handler {_name(handler)} takes (job), (args) or (job, args); give its other parameters a default"
        )
    return filled


def _name(handler: Handler) -> str:
    return str(getattr(handler, "__qualname__", type(handler).__qualname__))


def _is_job(parameter: inspect.Parameter) -> bool:
    return parameter.name == "job" or str(parameter.annotation).rpartition(".")[2].strip("'") == "Job"


def _annotation(handler: Handler, parameter: inspect.Parameter) -> Any:
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    try:
        return get_type_hints(_annotated(handler))[parameter.name]
    except (NameError, KeyError):
        raise SettingsInvalid(
            f"the type {parameter.annotation!r} of the arguments of {_name(handler)} cannot be resolved; "
            "define it at module level and import it at run time, or pass args=... to the decorator"
        ) from None


def _annotated(handler: Handler) -> Any:
    """The function that carries the annotations: that of a partial, or of an object that can be called."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler if inspect.isroutine(handler) else type(handler).__call__


def _decoder(kind: Any) -> Decoder:
    if kind is None or kind in _PLAIN or getattr(kind, "__origin__", None) in _PLAIN:
        return _plain
    return typed_decoder(kind)


def _plain(payload: str) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        raise ArgumentsInvalid("the payload is nested too deeply or is not JSON") from None
