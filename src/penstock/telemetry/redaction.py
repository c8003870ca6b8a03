"""The one redactor in front of logs, error columns and dead letters (C-52, E-30, E-31).

    redact_text        a message: keys, tokens, addresses and long literals masked
    redact_stack       a chain of errors: types, frames and codes, no source, no paths
    sanitized_context  the facts of a failure, from an allow-list
    hashed             a value that may be compared and not read

Each returns text that PostgreSQL stores, cut to a size, and none of them raises.
"""

from penstock.telemetry.contexts import hashed, hashed_recipient, opaque_id, sanitized_context
from penstock.telemetry.masks import redact_text
from penstock.telemetry.stacks import message_of, redact_stack, type_name

__all__ = [
    "hashed",
    "hashed_recipient",
    "message_of",
    "opaque_id",
    "redact_stack",
    "redact_text",
    "sanitized_context",
    "type_name",
]
