"""An instance of a JSON schema: every property filled, the same for the same input."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from penstock.emulator.sentences import polite

DEEPEST: Final = 12  # a schema that refers to itself ends here
FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-15",
    "date-time": "2026-01-15T09:30:00Z",
    "time": "09:30:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "6f1c2a34-0000-4000-8000-000000000000",
}
BY_NAME: Final[Mapping[str, str]] = {"language": "en", "locale": "en", "source_language": "en", "target_language": "en"}


def instance(schema: Mapping[str, Any], text: str) -> Any:
    """A value that fits *schema*; where it takes free text, *text* put politely."""
    return Builder(schema, text).value(schema, "", 0)


class Builder:
    """Walks a schema. References are looked up in the whole of it."""

    def __init__(self, root: Mapping[str, Any], text: str) -> None:
        self._root = root
        self._text = text

    def value(self, schema: Any, name: str, depth: int) -> Any:  # noqa: PLR0911, C901 - one line per keyword
        """One value for *schema*, which stands under the property *name*."""
        if not isinstance(schema, Mapping):
            return polite(self._text)
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._pick(schema["enum"], name)
        for word in ("anyOf", "oneOf"):
            if schema.get(word):
                return self.value(self._first_useful(schema[word]), name, depth)
        match self._kind(schema):
            case "object":
                return self._members(schema, depth)
            case "array":
                return self._elements(schema, name, depth)
            case "string":
                return self._string(schema, name)
            case "boolean":
                return True
            case "integer":
                return round(self._number(schema))
            case "number":
                return float(self._number(schema))
            case _:
                return None

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        for _ in range(DEEPEST):
            if "$ref" not in schema:
                break
            schema = self._at(str(schema["$ref"])) | {key: value for key, value in schema.items() if key != "$ref"}
        merged: dict[str, Any] = dict(schema)
        for part in schema.get("allOf", ()):
            inner = self._resolved(part)
            properties = {**merged.get("properties", {}), **inner.get("properties", {})}
            merged |= dict(inner) | ({"properties": properties} if properties else {})
        return merged

    def _at(self, pointer: str) -> dict[str, Any]:
        found: Any = self._root
        for step in pointer.removeprefix("#").strip("/").split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if step else found
        return dict(found)

    @staticmethod
    def _first_useful(choices: list[Any]) -> Any:
        return next((choice for choice in choices if choice.get("type") != "null"), choices[0])

    def _pick(self, choices: list[Any], name: str) -> Any:
        digest = sha256(f"{name}\n{self._text}".encode("utf-8", "surrogatepass")).digest()
        return choices[digest[0] % len(choices)]

    @staticmethod
    def _kind(schema: Mapping[str, Any]) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((each for each in kind if each != "null"), "null")
        if kind is None:
            kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
        return str(kind).lower()  # Gemini's own dialect writes OBJECT

    def _members(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        wanted = properties if depth < DEEPEST else schema.get("required", ())
        return {name: self.value(properties.get(name, {}), name, depth + 1) for name in wanted}

    def _elements(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
        least = int(schema.get("minItems", 0 if depth >= DEEPEST else 1))
        most = int(schema.get("maxItems", max(least, 1)))
        return [self.value(schema.get("items", {}), name, depth + 1) for _ in range(min(max(least, 1), most))]

    def _string(self, schema: Mapping[str, Any], name: str) -> str:
        text = FORMATS.get(schema.get("format", ""), "") or BY_NAME.get(name, "") or polite(self._text)
        least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", len(text) + 1_000_000))
        return text.ljust(least, ".")[:most]

    @staticmethod
    def _number(schema: Mapping[str, Any]) -> float:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        if low is not None and high is not None:
            return float(low + high) / 2
        if low is not None:
            return float(low) + 1
        return float(high) - 1 if high is not None else 1.0
