"""The application of the demo: a small press with three kinds of work.

    index      read a document, count its words, file the result: exactly once, in the job's own transaction
    thumbnail  draw a picture and shrink it: plain Python that computes, in threads, over several processes
    letter     post a letter to the outside world: at most once, through the ledger of effects

The outside world is a file to which every posting adds a line, so a letter
posted twice would be seen twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from penstock import Absent, FailureClass, Found, Job, Penstock, Schedule
from penstock.contract.errors import Failed
from penstock.demo.pictures import draw, png, shrink

FOLDER: Final = "PENSTOCK_DEMO_FOLDER"
WAY: Final = 0.05  # seconds to the post office, and the same back
SHAKY: Final = 9  # every so manieth letter meets a line that breaks on the first try
LEASE: Final = timedelta(seconds=4)  # short, so that the audience sees the work of a killed worker taken up

app = Penstock()


@dataclass(frozen=True)
class Document:
    """Which document."""

    document_id: int


@dataclass(frozen=True)
class Picture:
    """Which picture."""

    picture_id: int


@dataclass(frozen=True)
class Letter:
    """Which letter."""

    letter_id: int


def folder() -> Path:
    """Where pictures and the outside world are."""
    return Path(os.environ[FOLDER])


@app.job("index", lease=LEASE, log_ids=("document_id",))
async def index(job: Job, args: Document) -> None:
    """Count the words of a document and file them together with the job's completion."""
    async with job.transaction() as tx:
        body: str = await tx.fetchval("select body from press.documents where document_id = $1", args.document_id)
        words = _words(body)
        await tx.execute(
            "insert into press.entries (document_id, words, different_words, sha256) values ($1, $2, $3, $4)",
            args.document_id,
            words.total(),
            len(words),
            hashlib.sha256(body.encode()).hexdigest(),
        )


def _words(body: str) -> Counter[str]:
    """A document that was cut off in the middle needs a person, not another try."""
    if not body.endswith("."):
        raise Failed(FailureClass.SCHEMA_INVALID)
    return Counter(body.lower().replace(".", " ").split())


@app.job("thumbnail", lease=LEASE, log_ids=("picture_id",))
def thumbnail(args: Picture) -> None:
    """Draw and shrink; done twice it gives the same file."""
    small = png(shrink(draw(args.picture_id)))
    target = folder() / "pictures" / f"{args.picture_id}.png"
    draft = target.with_suffix(f".{os.getpid()}")
    draft.write_bytes(small)
    draft.rename(target)


@app.job("letter", lease=LEASE, attempts=4, backoff=Schedule([0.2, 0.5, 1.0]), log_ids=("letter_id",))
async def letter(job: Job, args: Letter) -> None:
    """Post a letter; after a crash the post office is asked before anything is repeated."""
    if args.letter_id % SHAKY == 0 and job.attempt == 1:
        raise ConnectionResetError
    await job.effect("post", perform=_post, settle=_look_up)


async def _post(token: str) -> dict[str, Any]:
    await asyncio.sleep(WAY)
    with (folder() / "posted").open("a") as posted:
        posted.write(f"{token}\n")
    await asyncio.sleep(WAY)  # killed here, the letter is posted and nobody knows
    return {"token": token}


async def _look_up(token: str) -> Found | Absent:
    found = await asyncio.to_thread((folder() / "posted").read_text)
    return Found({"token": token}) if token in found.split() else Absent()
