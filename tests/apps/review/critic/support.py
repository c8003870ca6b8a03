"""Parts of changelists, and answers about them."""

from __future__ import annotations

from typing import Any

from penstock.apps.review import diff
from penstock.apps.review.cutting import Part, cut
from penstock.contract.calls import Route

ROUTE = Route("openai", "gpt-5-mini", "openai_responses")
DIFF = b"""\
diff --git a/shop/cart.py b/shop/cart.py
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -8,3 +8,4 @@ class Cart:
     def mean(self):
-        return self.total
+        return self.total / len(self.items)
+
 # end
"""
LINES = {"shop/cart.py": frozenset(range(8, 12))}


def cut_part() -> Part:
    """As it comes from a diff."""
    (part,) = cut(diff.parse(DIFF), tokens=500, most=1)
    return part


def a_part(text: str, number: int = 1, of: int = 1) -> Part:
    """With any text at all."""
    return Part(number=number, of=of, text=text, lines=LINES)


def remark(**changes: Any) -> dict[str, Any]:
    said = {"file": "shop/cart.py", "line": 9, "severity": "major", "message": "It fails.", "suggestion": None}
    return {**said, **changes}


def answer(*remarks: dict[str, Any]) -> dict[str, Any]:
    return {"findings": list(remarks)}
