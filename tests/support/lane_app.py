"""A lane for processes of their own: `penstock run --app tests.support.lane_app:app letters_batch_submitter`."""

from __future__ import annotations

import os

from penstock.emulator import RemoteEmulator
from tests.engine.batches.scenarios import make_app

provider = RemoteEmulator(os.environ["LANE_PROVIDER"])
app = make_app(
    os.environ["PENSTOCK_DSN"], os.environ["LANE_KIND"], provider, grace=float(os.environ["PENSTOCK_GRACE_SECONDS"])
)
