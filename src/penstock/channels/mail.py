"""What mails share on whatever way they go: one-line headers, and the ones that keep machines from answering."""

from __future__ import annotations

from typing import Final

from penstock.contract.places import mailbox

LONGEST_SUBJECT: Final = 200


def one_line(text: str) -> str:
    """*text* for a header: no line break, nothing that cannot be seen, not endless."""
    seen = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(seen.split())[:LONGEST_SUBJECT]


def list_headers(sender: str) -> dict[str, str]:
    """Say that a program wrote it, so that no other one answers; to leave, a person writes to the sender.

    There is no link to follow: programs that look into mails follow links, and
    would take somebody off a list who never asked for it.
    """
    found = mailbox(sender)
    unsubscribe = {"List-Unsubscribe": f"<mailto:{found[1]}?subject=unsubscribe>"} if found else {}
    return {"Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All", **unsubscribe}
