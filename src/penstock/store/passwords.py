"""Passwords as the server keeps them: a SCRAM-SHA-256 verifier, made here, so no clear text reaches a server's log."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import stringprep
import unicodedata
from typing import Final

ITERATIONS: Final = 4096
SALT_BYTES: Final = 16


def verifier(password: str, *, salt: bytes | None = None) -> str:
    """What PostgreSQL stores for *password* (RFC 5803); the password cannot be read from it."""
    salt = salt or os.urandom(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), salt, ITERATIONS)
    stored = hashlib.sha256(_keyed(salted, b"Client Key")).digest()
    server = _keyed(salted, b"Server Key")
    return f"SCRAM-SHA-256${ITERATIONS}:{_text(salt)}${_text(stored)}:{_text(server)}"


def prepared(password: str) -> str:
    """The form in which client and server compare passwords: odd spaces and composed letters made one (RFC 4013)."""
    if password.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(letter) else letter for letter in password if not stringprep.in_table_b1(letter)
    )
    return unicodedata.normalize("NFKC", mapped)


def _keyed(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
