"""The rules that strict structured output has for a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def strict_problem(schema: Any, *, all_required: bool = True, path: str = "") -> str | None:
    """Why a provider refuses *schema* as strict; None when it takes it.

    Every object must forbid additional properties; for OpenAI every property
    must be required as well.
    """
    if not isinstance(schema, Mapping):
        return f"the schema at '{path or '/'}' is not an object"
    if "properties" in schema or schema.get("type") == "object":
        problem = _object_problem(schema, path, all_required=all_required)
        if problem:
            return problem
    for where, inner in _inside(schema):
        problem = strict_problem(inner, all_required=all_required, path=f"{path}/{where}")
        if problem:
            return problem
    return None


def _object_problem(schema: Mapping[str, Any], path: str, *, all_required: bool) -> str | None:
    if schema.get("additionalProperties") is not False:
        return f"'additionalProperties' is required to be false at '{path or '/'}'"
    optional = set(schema.get("properties", {})) - set(schema.get("required", ()))
    if all_required and optional:
        return f"'required' has to name every property at '{path or '/'}'; it lacks {sorted(optional)}"
    return None


def _inside(schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found = [(name, inner) for word in ("properties", "$defs") for name, inner in schema.get(word, {}).items()]
    found += [
        (f"{word}/{number}", inner) for word in ("anyOf", "allOf") for number, inner in enumerate(schema.get(word, ()))
    ]
    return [*found, ("items", schema["items"])] if "items" in schema else found
