"""Keys of the HTTP API: `id.secret`, shown once and stored as a hash.

A secret has 256 random bits, so SHA-256 is all the hashing that it needs: a
slow hash protects passwords that people choose and that can be guessed, and
nobody guesses 2**256 values. The id is part of what is hashed, so the hash of
one key proves nothing for another. Only the hash reaches the server, and the
server compares it in a time that does not depend on it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.store import roles
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Db

ID_LETTERS: Final = string.ascii_lowercase + string.digits
ID_LENGTH: Final = 12
SECRET_BYTES: Final = 32
_TOKEN: Final = re.compile(r"([a-z0-9]{12})\.([A-Za-z0-9_-]{43})", re.ASCII)


class Scope(StrEnum):
    """What a key is for; one key has one."""

    ORCHESTRATOR = "orchestrator"
    FRONTEND = "frontend"
    OPERATOR = "operator"


ROLES: Final[Mapping[Scope, str]] = {
    Scope.ORCHESTRATOR: roles.ORCHESTRATOR,
    Scope.FRONTEND: roles.FRONTEND,
    Scope.OPERATOR: roles.OPERATOR,
}


@dataclass(frozen=True, slots=True)
class Credential:
    """What a caller shows, as far as it leaves this process."""

    key_id: str
    digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """What an accepted key may do, and for whom."""

    scope: Scope
    home_id: UUID | None
    user_id: UUID | None


def new_token() -> str:
    """A key that nobody has."""
    key_id = "".join(secrets.choice(ID_LETTERS) for _ in range(ID_LENGTH))
    return f"{key_id}.{secrets.token_urlsafe(SECRET_BYTES)}"


def credential(token: str) -> Credential | None:
    """The id and the hash of *token*; None for what cannot be a key."""
    found = _TOKEN.fullmatch(token)
    return None if found is None else Credential(found[1], hashlib.sha256(token.encode()).digest())


async def check(db: Db, shown: Credential) -> Bound | None:
    """What the key may do; None when it is unknown, wrong, revoked or expired, and nobody learns which."""
    row = await db.fetchrow(sql("api_keys/check"), shown.key_id, shown.digest)
    if row is None or row["scope"] is None:
        return None
    return Bound(Scope(row["scope"]), row["home_id"], row["user_id"])


async def create(
    db: Db,
    made: Credential,
    *,
    scope: Scope,
    name: str,
    who: str,
    home_id: UUID | None = None,
    user_id: UUID | None = None,
    valid: timedelta | None = None,
) -> datetime:
    """Store a key by its hash; the database refuses a binding that its scope does not have."""
    arguments = (made.key_id, made.digest, scope, home_id, user_id, name, who, valid)
    created: datetime = await db.fetchval(sql("api_keys/create"), *arguments)
    return created


async def listed(db: Db) -> list[asyncpg.Record]:
    """Every key, the newest first, without its hash."""
    return await db.fetch(sql("api_keys/list"))


async def revoke(db: Db, key_id: str, *, who: str) -> datetime | None:
    """Refuse the key from now on; returns since when, None when there is none. The first to do it is remembered."""
    revoked: datetime | None = await db.fetchval(sql("api_keys/revoke"), key_id, who)
    return revoked
