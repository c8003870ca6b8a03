"""The emulated channels, as whoever scripts them from outside sees them."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator

import httpx
import pytest

from penstock.emulator import Emulator, RemoteEmulator
from penstock.emulator.webhooks import SECRET, signed
from tests.support.loopback import NOBODY

MAIL = {"from": "a@example.org", "to": ["b@example.org"], "subject": "s", "text": "t"}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(mail=True, keys={"re_known": "one"}) as started:
        yield started


@pytest.fixture
def remote(emulator: Emulator) -> RemoteEmulator:
    """Steered as from another process, and empty."""
    found = RemoteEmulator(emulator.url)
    found.reset()
    return found


def post(remote: RemoteEmulator, token: str, key: str = "re_known", **changes: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", "idempotency-key": token}
    with httpx.Client(trust_env=False, verify=NOBODY) as client:
        return client.post(f"{remote.resend_url}/emails", json=MAIL | changes, headers=headers)


def test_deliveries_are_counted_per_token_and_a_provider_can_lose_one(remote: RemoteEmulator) -> None:
    assert post(remote, "one").json() == post(remote, "one").json()
    post(remote, "two")

    assert remote.state()["resend"]["deliveries"] == {"one": 1, "two": 1}
    assert [each["token"] for each in remote.deliveries()] == ["one", "two"]
    remote.lose("one")
    assert remote.state()["resend"]["deliveries"] == {"two": 1}


def test_a_fault_can_be_meant_for_one_message(remote: RemoteEmulator) -> None:
    remote.add_fault("status", provider="resend", token="two", status=503)  # noqa: S106 - a name

    assert [post(remote, token).status_code for token in ("one", "two", "three")] == [200, 503, 200]


@pytest.mark.parametrize(
    ("changes", "status", "name"),
    [
        ({"to": "nobody"}, 422, "validation_error"),
        ({"from": "nobody"}, 422, "validation_error"),
        ({"subject": ""}, 422, "missing_required_field"),
        ({"text": ""}, 422, "missing_required_field"),
        ({"to": ["b@example.org"] * 51}, 422, "validation_error"),
        ({"key": "re_other"}, 403, "invalid_api_key"),
        ({"token": "x" * 257}, 400, "invalid_idempotency_key"),
    ],
)
def test_resend_refuses_in_its_own_words(
    remote: RemoteEmulator, changes: dict[str, object], status: int, name: str
) -> None:
    given: dict[str, object] = {"token": "one"} | changes

    answer = post(remote, str(given.pop("token")), **given)  # type: ignore[arg-type]  # a key is text, the rest is JSON

    assert (answer.status_code, answer.json()["name"], answer.json()["statusCode"]) == (status, name, status)
    assert remote.deliveries() == []


def test_a_webhook_with_a_signature_of_another_time_or_body_is_refused() -> None:
    known = {  # of the standard's own test vectors no other secret can make this
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }

    assert not signed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", known, b'{"test": 2432232314}')
    assert not signed(SECRET, {}, b"{}")


def test_a_mail_server_that_is_told_to_refuses_one_address(remote: RemoteEmulator, emulator: Emulator) -> None:
    remote.add_fault("status", provider="smtp", method="RCPT", path="^bad@", status=550)

    with smtplib.SMTP(*emulator.smtp_address) as client:
        refused = client.sendmail("a@example.org", ["good@example.org", "bad@example.org"], "Message-ID: <m@x>\n\nhi")

    assert list(refused) == ["bad@example.org"]
    assert remote.smtp_port == emulator.smtp_address[1]
    assert remote.state()["smtp"]["deliveries"] == {"m": 1}


def test_without_mail_there_is_no_mail_server() -> None:
    with pytest.raises(RuntimeError, match="mail=True"):
        _ = Emulator().smtp_address
