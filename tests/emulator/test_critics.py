"""What the emulated models say about a changelist: at new lines of it, and only where there is something to say."""

from __future__ import annotations

import json

import pytest

from penstock.emulator import Question, default_answer
from penstock.emulator.critics import FLAWS, findings, is_critic

MEMBERS: dict[str, object] = {name: {} for name in ("file", "line", "severity", "message", "suggestion")}
SCHEMA = {"properties": {"findings": {"items": {"properties": MEMBERS}}}}
FLAWED = (
    'rows = await db.fetch(f"select * from carts where id = {cart}")',
    'API_KEY = "sk-0123456789"',
    "result = eval(formula)",
    "subprocess.run(command, shell=True)",
    "httpx.get(url, verify=False)",
    "return total / len(items)",
    "def add(item, cart=[]):",
    "except Exception:",
    "if cart == None:",
    "time.sleep(5)",
    "# TODO: taxes",
)


def fenced(*lines: str) -> str:
    return "\n".join(["<<<CHANGE 1 lines=9", *(f"| {line}" for line in lines), ">>>CHANGE 1"])


@pytest.mark.parametrize("number", range(len(FLAWS)))
def test_every_flaw_is_found_at_its_line(number: int) -> None:
    flawed = f"      7 +    {FLAWED[number]}"
    text = fenced("=== shop/a.py", "      6  pass", flawed, "=== b.py (new file)", "      1 +x = 1")
    (found,) = findings(text)["findings"]
    assert (found["file"], found["line"], found["message"]) == ("shop/a.py", 7, FLAWS[number].message)
    assert found["suggestion"] is None or not FLAWS[number].pattern.search(str(found["suggestion"]))


def test_old_lines_and_sound_ones_give_no_finding() -> None:
    text = fenced("=== a.py", "      6  eval(x)", "        -eval(y)", "      7 +y = 1")
    assert findings(text) == {"findings": []}


def test_only_a_question_for_findings_is_answered_with_them() -> None:
    text = fenced("+++ b/a.py", "      1 +eval(x)")
    said = default_answer(Question("openai", "m", "", text, SCHEMA))
    assert json.loads(said)["findings"][0]["file"] == "a.py"
    assert not is_critic(None)
    assert not is_critic({"properties": {"findings": {"items": {"type": "string"}}}})
