"""Typed arguments: a payload read as the type that a handler declares, with errors that repeat none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import ArgumentsInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import TypeAdapter, ValidationError

MOST_PLACES: Final = 10


def typed_decoder(kind: Any) -> Callable[[str], Any]:
    """Read JSON text as *kind*: a pydantic model, a dataclass, or any other annotation pydantic knows."""
    from pydantic import TypeAdapter, ValidationError  # only typed handlers pay for it

    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    name = getattr(kind, "__name__", str(kind))
    declared: set[str] = set()

    def decode(payload: str) -> Any:
        try:
            return adapter.validate_json(payload)
        except ValidationError as error:
            if not declared:
                declared.update(_declared(adapter))
            places = ", ".join(_places(error, declared))
        # Outside the except, so that pydantic's error, which holds the input, is no context of this one.
        raise ArgumentsInvalid(f"the payload does not fit {name}: {places}")

    return decode


def _places(error: ValidationError, declared: set[str]) -> Iterator[str]:
    """Where and which rule, never the value. A key that no declaration names is content too, and shown as `*`."""
    for line in error.errors(include_input=False, include_url=False, include_context=False)[:MOST_PLACES]:
        steps = (str(part) if isinstance(part, int) or part in declared else "*" for part in line["loc"])
        yield f"{'.'.join(steps) or 'payload'} ({line['type']})"


def _declared(adapter: TypeAdapter[Any]) -> set[str]:
    """Every field name in the declaration, also of the models inside it."""
    try:
        schema = adapter.json_schema()
    except Exception:  # a type without a JSON schema names no fields
        return {""}
    found = {""}
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found.update(node.get("properties") or ())
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return found
