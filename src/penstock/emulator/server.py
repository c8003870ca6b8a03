"""The emulator as an object: a server in a thread of its own, and everything that may be asked of it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import uvicorn

from penstock.emulator.answers import Answering, Answers
from penstock.emulator.application import application
from penstock.emulator.batches import Batch
from penstock.emulator.deliveries import Deliveries
from penstock.emulator.faults import Faults
from penstock.emulator.files import File
from penstock.emulator.webhooks import SECRET
from penstock.emulator.wire import Protocol
from penstock.emulator.world import Call, Settings, World

if TYPE_CHECKING:
    from penstock.emulator.smtp import Sink

START_SECONDS = 10.0
DATE_SECONDS = 1.0  # replies carry the time to the second


class Emulator:
    """Loopback OpenAI, Gemini and Anthropic, and three channels: Resend, webhooks, mail.

        async with Emulator(finish_after=60) as emulator:
            client = AsyncOpenAI(base_url=emulator.openai_base_url, api_key="any", max_retries=0)
            emulator.faults.add("drop_after", method="POST", path="/batches$", nth=1)
            emulator.advance(60)

    It runs in a thread, so clients that block do not stop it. Everything is in
    memory. A bug of the emulator itself is raised when it is left: a test
    must not take it for a provider's.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        finish_after: float = 1.0,
        cancel_after: float = 0.0,
        frozen: bool = False,
        seed: int = 0,
        keys: Mapping[str, str] | None = None,
        models: Sequence[str] | None = None,
        file_active_after: float = 0.0,
        answer: Answering | None = None,
        mail: bool = False,
        smtp_port: int = 0,
        webhook_secret: str = SECRET,
        script: Mapping[str, Any] | None = None,
    ) -> None:
        settings = Settings(
            finish_after=finish_after,
            cancel_after=cancel_after,
            seed=seed,
            keys=keys,
            models=models,
            file_active_after=file_active_after,
            webhook_secret=webhook_secret,
        )
        self.world = World.create(settings, frozen=frozen, answer=answer)
        self.load(script or {})
        self._address = (host, port)
        self._smtp_port = smtp_port if mail else None
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    def load(self, script: Mapping[str, Any]) -> None:
        """Add the faults and answers of a script: `{"faults": [...], "answers": [...]}`."""
        unknown = set(script) - {"faults", "answers"}
        if unknown:
            raise ValueError(f"a script has 'faults' and 'answers', not {sorted(unknown)}")
        self.faults.load(script.get("faults", ()))
        self.answers.load(script.get("answers", ()))

    @property
    def faults(self) -> Faults:
        """The faults in force: `add`, `load`, `clear`."""
        return self.world.faults

    @property
    def answers(self) -> Answers:
        """What the models say: `add`, `clear`, and `function`, which may be replaced."""
        return self.world.answers

    @property
    def batches(self) -> list[Batch]:
        """Every batch as it stands now, oldest first."""
        self.world.settle()
        return list(self.world.batches.values())

    @property
    def files(self) -> list[File]:
        """Every file, oldest first."""
        self.world.settle()
        return list(self.world.files.values())

    @property
    def deliveries(self) -> Deliveries:
        """What the channels have delivered: `count(token)`, `by_token()`, `lose(token)`."""
        return self.world.deliveries

    @property
    def calls(self) -> list[Call]:
        """Every request so far, oldest first."""
        return list(self.world.calls)

    def batch(self, batch_id: str) -> Batch:
        """One batch; let more go wrong with it by `batch.plan.add(kind, ...)`."""
        self.world.settle()
        return self.world.batches[batch_id]

    def state(self) -> dict[str, Any]:
        """Counts per provider; per submission token the batches created, live and kept."""
        return self.world.state()

    def advance(self, seconds: float) -> None:
        """Wind the emulator's clock forward."""
        self.world.clock.advance(seconds)
        self.world.settle()

    def reset(self) -> None:
        """Forget files, batches, calls, faults and canned answers."""
        self.world.reset()

    @property
    def url(self) -> str:
        """Where it listens."""
        if self._server is None:
            raise RuntimeError("the emulator is not running; use it as a context manager, or call start()")
        return self._server.url

    @property
    def openai_base_url(self) -> str:
        """For `openai.OpenAI(base_url=...)`."""
        return f"{self.url}/openai/v1"

    @property
    def gemini_base_url(self) -> str:
        """For `genai.Client(http_options=HttpOptions(base_url=...))`."""
        return f"{self.url}/gemini"

    @property
    def anthropic_base_url(self) -> str:
        """For `anthropic.Anthropic(base_url=...)`."""
        return f"{self.url}/anthropic"

    @property
    def resend_url(self) -> str:
        """For the setting `resend_url`, and for `resend.api_url`."""
        return f"{self.url}/resend"

    @property
    def webhook_secret(self) -> str:
        """For the setting `webhook_secret`: what the receiver checks signatures with."""
        return self.world.settings.webhook_secret

    def webhook_url(self, name: str) -> str:
        """Where *name* gets webhooks."""
        return f"{self.url}/webhook/{name}"

    @property
    def smtp_address(self) -> tuple[str, int]:
        """Host and port of the mail server, which `mail=True` opens."""
        if self._server is None or self._server.smtp is None:
            raise RuntimeError("the emulator has no mail server; make it with mail=True, and start it")
        return self._server.smtp_address

    def start(self) -> Self:
        """Listen, in a thread."""
        self._server = server = Server(self.world, *self._address, self._smtp_port)
        self._thread = threading.Thread(target=server.run, name="emulator", daemon=True)
        self._thread.start()
        if not server.listening.wait(START_SECONDS):
            raise RuntimeError(f"the emulator did not start within {START_SECONDS:.0f} seconds")
        return self

    def stop(self) -> None:
        """Stop listening; connections that are open are closed."""
        if self._server is not None and self._thread is not None:
            self._server.leave()
            self._thread.join(START_SECONDS)

    def serve(self) -> None:
        """Listen in this thread until a signal comes."""
        self._server = self._server or Server(self.world, *self._address, self._smtp_port)
        self._server.run()

    def listen(self) -> str:
        """Bind the port without serving yet; the URL is known from here on."""
        self._server = Server(self.world, *self._address, self._smtp_port)
        return self._server.url

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None and self.world.problems:
            raise self.world.problems[0]

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


class Server(uvicorn.Server):
    """One listening socket. It does not wait for clients when it is told to leave."""

    def __init__(self, world: World, host: str, port: int, smtp_port: int | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                application(world),
                loop="asyncio",
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                timeout_keep_alive=60,
            )
        )
        self._socket = socket.create_server((host, port), backlog=512)
        # Connections inherit it. Without it the body of a reply waits 40 ms for the client to acknowledge the head.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.smtp = None if smtp_port is None else socket.create_server((host, smtp_port), backlog=512)
        self.smtp_address = (host, 0 if self.smtp is None else int(self.smtp.getsockname()[1]))
        world.smtp_port = self.smtp_address[1] or None
        self._sink: Sink | None = None
        self._world = world
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()
        self.listening = threading.Event()
        self.url = f"http://{host}:{self._socket.getsockname()[1]}"

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on the socket that was bound."""
        super().run(sockets or [self._socket])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell when clients may come."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.smtp is not None:
            from penstock.emulator.smtp import Sink

            self._sink = Sink(self._world)
            await self._sink.listen(self.smtp)
        self.listening.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Leave with code 0: being told to stop is how this ends."""
        self.leave()

    def leave(self) -> None:
        """Stop, also from another thread."""
        self.force_exit = True
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has left already, and its loop is closed
                self._loop.call_soon_threadsafe(self._told.set)

    async def main_loop(self) -> None:
        """Wait to be told: to look ten times a second, as uvicorn does, costs whoever stops it a tenth of one."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), DATE_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close every connection at once: a client that waits for a delayed reply waits no longer.

        uvicorn's own would wait a tenth of a second for clients to take the rest
        of their replies. Requests under way are cancelled as the loop ends.
        """
        for server in self.servers:
            server.close()
        for bound in sockets or ():
            bound.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        if self._sink is not None:
            self._sink.close()
