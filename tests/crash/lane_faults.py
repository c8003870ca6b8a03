"""What goes wrong at the providers while submitters and collectors die. All of it is harmless to a lane that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.emulator import RemoteEmulator

_CREATE: Final = {"method": "POST", "path": r"(/batches|:batchGenerateContent)$"}
_UPLOAD: Final = {"method": "POST", "path": r"/files$"}
_DOWNLOAD: Final = {"method": "GET", "path": r"(/content|/results|:download)$"}

SCRIPT: Final[tuple[tuple[str, float, dict[str, Any]], ...]] = (
    # The create: never arrived, or acted on and the reply lost, in several ways
    ("drop", 0.05, _CREATE),
    ("drop_after", 0.08, _CREATE),
    ("drop_after", 0.04, {**_CREATE, "reset": True}),
    ("server_error", 0.03, {**_CREATE, "act": True}),
    ("bad_gateway", 0.03, _CREATE),
    ("broken_json", 0.03, {**_CREATE, "act": True}),
    ("rate_limited", 0.02, _CREATE),
    # Around it
    ("drop", 0.03, _UPLOAD),
    ("drop_after", 0.03, _UPLOAD),
    ("truncate", 0.05, _DOWNLOAD),
    ("truncate", 0.03, {**_DOWNLOAD, "framing": "close"}),
    ("unavailable", 0.03, {"method": "GET"}),
    ("drop", 0.02, {"method": "GET"}),
    # Batches that behave badly
    ("finish_after", 0.30, {"seconds": 1500}),  # longer than the grace: a second batch would meet it alive
    ("list_delay", 0.15, {"seconds": 120}),  # shorter than the grace
    ("not_found", 0.10, {"polls": 2}),
    ("expire", 0.05, {"after": 200, "done": 1}),
    ("shuffle", 0.50, {}),
    ("foreign", 0.30, {}),
    # Items
    ("duplicate", 0.10, {}),
    ("item_error", 0.05, {"status": 500}),
    ("item_expired", 0.03, {}),
    ("status_zero", 0.03, {"provider": "openai"}),
)


def let_fail(emulator: RemoteEmulator) -> None:
    """Put the script in force; the emulator draws by its own seed."""
    for kind, probability, settings in SCRIPT:
        emulator.add_fault(kind, probability=probability, **settings)
