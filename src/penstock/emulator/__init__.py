"""Loopback OpenAI, Gemini, Anthropic and Resend, a receiver of webhooks and a mail server, for demos and tests.

The real SDKs talk to it, and it fails on request.

Nothing leaves the machine and nothing is written to disk. Answers are the
same for the same input. Needs the extra `emulator`.
"""

from penstock.emulator.answers import default_answer
from penstock.emulator.batches import Batch, Stage
from penstock.emulator.deliveries import Deliveries, Delivery
from penstock.emulator.faults import Rule
from penstock.emulator.kinds import KINDS
from penstock.emulator.questions import Question
from penstock.emulator.remote import RemoteEmulator
from penstock.emulator.server import Emulator
from penstock.emulator.world import Call

__all__ = [
    "KINDS",
    "Batch",
    "Call",
    "Deliveries",
    "Delivery",
    "Emulator",
    "Question",
    "RemoteEmulator",
    "Rule",
    "Stage",
    "default_answer",
]
