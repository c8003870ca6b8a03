"""An operator's process that replays one dead letter, and dies where the environment says."""

import asyncio
import sys
from uuid import UUID

import asyncpg

from penstock.contract.crash import arm_from_environment
from penstock.engine.replay import replay


async def main(dsn: str, dead_letter_id: str) -> None:
    connection = await asyncpg.connect(dsn)
    await replay(connection, UUID(dead_letter_id), operator="ann")
    await connection.close()


if __name__ == "__main__":
    arm_from_environment()
    asyncio.run(main(*sys.argv[1:]))
