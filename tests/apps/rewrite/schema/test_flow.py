"""One request from its message to its output, each step by its own role."""

from penstock.apps.rewrite import homes, repository
from penstock.apps.rewrite.models import PreferencesV1
from penstock.store.roles import ORCHESTRATOR, WORKER
from tests.apps.rewrite.estate import Estate


async def test_a_request_goes_from_received_to_completed(estate: Estate) -> None:
    home = await estate.home()
    unit = await estate.completed(home, "gracias", text="turn it down", preferences=PreferencesV1(blocked_terms=("x",)))
    row = await estate.request_row(unit)
    assert row["status"] == "completed"
    key = await estate.key(home.home_id)
    async with estate.at(ORCHESTRATOR, home.home_id) as c:
        out = await repository.read_output(c, key, home.home_id, unit.request_id)
    assert out is not None
    assert out.response.rewritten_text == "gracias"
    async with estate.at(WORKER, None) as c:
        loaded = await repository.load_job(c, unit.job, home.home_id)
        assert loaded is not None
        key = await homes.home_key(c, estate.keyring, home.home_id)
    assert loaded.request(key).message_text == "turn it down"
    assert loaded.preferences(key).blocked_terms == ("x",)
    assert loaded.slot_filled
