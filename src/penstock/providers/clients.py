"""The SDK clients, each with its own retries off and no redirect followed.

The engine retries, and it has to know what happened; a client that tries again
by itself can create two batches. A redirect would carry the key to a host that
nobody chose. *transport* stands in for the network in tests.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.providers.wire import CONTROL_SECONDS, cap, hush

if TYPE_CHECKING:
    import ssl

    import httpx2
    from anthropic import AsyncAnthropic
    from google.genai import Client
    from openai import AsyncOpenAI


def openai_client(key: str, base_url: str, transport: httpx2.AsyncBaseTransport | None = None) -> AsyncOpenAI:
    """A client of OpenAI's API at *base_url*, which ends in its version."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    http = DefaultAsyncHttpxClient(
        verify=_trusted(), follow_redirects=False, transport=transport, event_hooks={"response": [cap]}
    )
    return AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=CONTROL_SECONDS, http_client=http)


def anthropic_client(key: str, base_url: str, transport: httpx2.AsyncBaseTransport | None = None) -> AsyncAnthropic:
    """A client of Anthropic's API at *base_url*."""
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

    http = DefaultAsyncHttpxClient(
        verify=_trusted(), follow_redirects=False, transport=transport, event_hooks={"response": [cap]}
    )
    return AsyncAnthropic(api_key=key, base_url=base_url, max_retries=0, timeout=CONTROL_SECONDS, http_client=http)


def gemini_client(key: str, base_url: str, transport: httpx2.AsyncBaseTransport | None = None) -> Client:
    """A client of the Gemini API at *base_url*; keep it, it closes itself when it is forgotten."""
    import httpx2
    from google.genai import Client
    from google.genai.types import HttpOptions, HttpRetryOptions

    hush()
    http = httpx2.AsyncClient(
        verify=_trusted(),
        follow_redirects=False,
        transport=transport,
        timeout=CONTROL_SECONDS,
        event_hooks={"response": [cap, _refuse_a_broken_upload]},
    )
    options = HttpOptions(
        base_url=base_url,
        timeout=round(CONTROL_SECONDS * 1000),
        retry_options=HttpRetryOptions(attempts=1),
        httpx_async_client=http,
        httpx_client=httpx2.Client(transport=httpx2.MockTransport(_refuse), trust_env=False),
        async_client_args={"ssl": _trusted()},  # for websockets, which nobody opens; else it reads all certificates
    )
    return Client(api_key=key, vertexai=False, http_options=options)


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """One for all clients: to read the certificates again for each takes longer than to make it."""
    import httpx2

    return httpx2.create_ssl_context()


def _refuse(request: httpx2.Request) -> httpx2.Response:
    """The SDK's blocking half is never used; without one of ours it loads certificates for one."""
    raise RuntimeError(f"a blocking {request.method} on the event loop")


async def _refuse_a_broken_upload(response: httpx2.Response) -> None:
    """Raise before the SDK does: it would sleep for seconds on our loop and send the chunk again."""
    from google.genai.errors import APIError

    from penstock.providers.failing import Unreadable

    sent = response.request.headers.get("x-goog-upload-command", "")
    if not sent.startswith("upload") or response.headers.get("x-goog-upload-status"):
        return
    await response.aread()
    await APIError.raise_for_async_response(response)
    raise Unreadable
