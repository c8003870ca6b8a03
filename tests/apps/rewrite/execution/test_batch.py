"""The batch lane end to end."""

from __future__ import annotations

from tests.apps.rewrite.conftest import World


async def test_a_complaint_goes_out_and_comes_back_rewritten(world: World) -> None:
    home = await world.home("en-US", "es-MX")
    sent = await world.send(home)
    await world.through()

    assert await world.ends() == [("completed", "completed", None)]
    output = await world.output(sent)
    assert output is not None
    assert output.output_locale == "es"
    assert sent.echo in output.rewritten_text
