"""The check of an input file: all of it or nothing, with the number of each bad line."""

from __future__ import annotations

import json
from typing import Any, Final

from penstock.emulator.batches import Item
from penstock.emulator.files import nonblank_lines
from penstock.emulator.openai.asking import CHAT
from penstock.emulator.world import World

REQUIRED: Final = ("custom_id", "method", "url", "body")
MOST_ERRORS: Final = 100


class Check:
    """Reads the lines of one input file. Items are those of a good file; errors name lines from 1."""

    def __init__(self, world: World, endpoint: str) -> None:
        self._world = world
        self._endpoint = endpoint
        self._seen: set[str] = set()
        self.model = ""
        self.items: list[Item] = []
        self.errors: list[dict[str, Any]] = []

    def read(self, data: bytes) -> None:
        """Check every line of *data*."""
        for number, raw in enumerate(nonblank_lines(data), 1):
            problem = self._problem(raw)
            if problem is not None and len(self.errors) < MOST_ERRORS:
                self.errors.append(_error(number, *problem))
        if not self.items and not self.errors:
            self.errors.append(_error(None, "empty_file", "The input file is empty.", None))
        if len(self.items) > self._world.settings.max_items:
            message = f"The input file has more than {self._world.settings.max_items} requests."
            self.errors.append(_error(None, "too_many_requests", message, None))

    def _problem(self, raw: memoryview) -> tuple[str, str, str | None] | None:
        try:
            line = json.loads(bytes(raw))
        except ValueError:
            return "invalid_json_line", "This line is not parseable as valid JSON.", None
        if not isinstance(line, dict):
            return "invalid_json_line", "This line is not a JSON object.", None
        for name in REQUIRED:
            if not line.get(name):
                return "missing_required_parameter", f"Missing required parameter: '{name}'.", name
        return self._problem_of(line, raw)

    def _problem_of(self, line: dict[str, Any], raw: memoryview) -> tuple[str, str, str | None] | None:
        custom_id, body = str(line["custom_id"]), line["body"]
        if custom_id in self._seen:
            return "duplicate_custom_id", "The custom_id of this line was used before.", "custom_id"
        if line["url"] != self._endpoint or line["method"] != "POST":
            return "url_mismatch", f"The url of this line is not the batch's endpoint {self._endpoint}.", "url"
        wanted = "messages" if self._endpoint == CHAT else "input"
        for name in ("model", wanted):
            if not isinstance(body, dict) or not body.get(name):
                return "missing_required_parameter", f"Missing required parameter: 'body.{name}'.", f"body.{name}"
        self.model = self.model or str(body["model"])
        if body["model"] != self.model:
            return "model_mismatch", "All lines of a batch must use the same model.", "body.model"
        if self._world.settings.models is not None and self.model not in self._world.settings.models:
            return "model_not_found", f"The model {self.model!r} does not exist.", "body.model"
        self._seen.add(custom_id)
        self.items.append(Item(custom_id, raw))
        return None


def _error(line: int | None, code: str, message: str, param: str | None) -> dict[str, Any]:
    return {"code": code, "line": line, "message": message, "param": param}
