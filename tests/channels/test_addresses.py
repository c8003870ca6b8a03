"""Which addresses a message may go to, and which parts of the network a webhook may reach."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.channels.addresses import admitted, checked_mail, checked_webhook, is_public, target_of
from penstock.contract.errors import RecipientInvalid
from penstock.contract.places import is_host, is_mail_address, mailbox

PRIVATE = [
    "0.0.0.1", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::10.0.0.1",
    "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:5db8:d70e::", "3fff::1", "5f00::1",
    "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
]  # fmt: skip
PUBLIC = ["93.184.215.14", "8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("text", PRIVATE)
def test_no_webhook_goes_to_an_address_that_is_not_public(text: str) -> None:
    assert not admitted(ip_address(text))
    shown = f"[{text}]" if ":" in text else text
    with pytest.raises(RecipientInvalid, match="not public") as caught:
        checked_webhook(f"https://{shown}/hook")
    assert text not in str(caught.value) or len(text) <= 2


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_on_the_open_internet_is_as_good_as_a_name(text: str) -> None:
    shown = f"[{text}]" if ":" in text else text
    assert checked_webhook(f" https://{shown}:8443/hook?a=1 ") == f"https://{shown}:8443/hook?a=1"


def test_a_setting_opens_a_private_network_and_nothing_beside_it() -> None:
    allowed = [ip_network("10.1.0.0/16"), ip_network("fd00::/8")]

    assert admitted(ip_address("10.1.255.1"), allowed)
    assert admitted(ip_address("::ffff:10.1.0.1"), allowed)
    assert admitted(ip_address("fd12::1"), allowed)
    assert not admitted(ip_address("10.2.0.1"), allowed)
    assert not admitted(ip_address("::ffff:10.2.0.1"), allowed)
    assert not admitted(ip_address("224.0.0.1"), [ip_network("0.0.0.0/0")])
    assert not admitted(ip_address("0.0.0.0"), [ip_network("0.0.0.0/0")])  # noqa: S104 - nothing listens


@given(st.ip_addresses(v=4))
def test_wrapped_in_ipv6_an_address_is_as_private_as_before(address: IPv4Address) -> None:
    public = is_public(address)

    assert is_public(IPv6Address(f"::ffff:{address}")) is public
    assert is_public(IPv6Address(f"64:ff9b::{address}")) is public
    assert not is_public(IPv6Address(f"::{address}"))
    assert not is_public(IPv6Address((0x2002 << 112) | (int(address) << 80)))


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_python_calls_private_is_never_public_here(address: IPv4Address | IPv6Address) -> None:
    special = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    if special and getattr(address, "ipv4_mapped", None) is None:
        assert not is_public(address)


@settings(max_examples=25)
@given(st.ip_addresses(v=4, network=IPv4Network("127.0.0.0/8")), st.sampled_from(["http", "https"]))
def test_no_way_to_write_this_machine_gets_through(address: IPv4Address, scheme: str) -> None:
    number, parts = int(address), str(address).split(".")
    forms = [str(address), str(number), hex(number), f"0{number:o}", f"127.{number & 0xFFFFFF}"]
    forms += [".".join(hex(int(part)) for part in parts), ".".join(f"0{int(part):o}" for part in parts), f"{address}."]

    for form in forms:
        with pytest.raises(RecipientInvalid):
            checked_webhook(f"{scheme}://{form}/hook")


@pytest.mark.parametrize(
    "url",
    [
        "", "taker.example.net", "//taker.example.net/x", "ftp://taker.example.net/x", "file:///etc/passwd",
        "http://taker.example.net/x", "https://user@taker.example.net/", "https://a:b@taker.example.net/",
        "https://@taker.example.net/", "https:///x", "https://taker.example.net:0/", "https://taker.example.net:99999/",
        "https://taker.example.net:x/", "https://taker.example.net/#x", "https://taker.example.net/a b",
        "https://taker.example.net\\@evil.example/", "https://taker.example.net/\r\nX: y", "https://hööks.example/",
        "https://localhost/", "https://LOCALHOST./", "https://a.localhost/", "https://[fe80::1%25eth0]/",
        "https://[::1]/", "https://127.0.0.1.:443/", "https://1.1/", "https://-a.example/", "https://a..example/",
        "https://" + "a" * 500 + "/", "https://[v1.x]/", "https://exa%6dple.org/",
    ],
)  # fmt: skip
def test_what_is_no_plain_https_address_is_refused_at_creation(url: str) -> None:
    with pytest.raises(RecipientInvalid) as caught:
        checked_webhook(url)
    assert not url or url not in str(caught.value)
    assert caught.value.__cause__ is None


def test_plain_http_is_for_allowed_networks() -> None:
    allowed = [ip_network("10.0.0.0/8")]

    assert checked_webhook("http://10.0.0.1/x", allowed)
    assert checked_webhook("http://inside.example/x", allowed)  # judged again when its address is known
    with pytest.raises(RecipientInvalid, match="not https"):
        checked_webhook("http://8.8.8.8/x", allowed)


@given(st.text(max_size=80))
def test_any_text_is_a_place_or_refused_and_never_anything_else(text: str) -> None:
    for check in (checked_mail, checked_webhook):
        try:
            assert check(text) == text.strip()
        except RecipientInvalid as refusal:
            assert len(text) < 8 or text not in str(refusal)  # noqa: PT017 - both ends are fine


@given(st.from_regex(r"https://[a-z0-9@:/?#\[\]%.\\-]{1,40}", fullmatch=True))
def test_a_url_that_passes_leads_to_the_host_that_was_judged(url: str) -> None:
    import httpx

    try:
        plain = checked_webhook(url)
    except RecipientInvalid:
        return
    target = target_of(plain)
    assert is_host(target.host)
    assert httpx.URL(plain).host.rstrip(".") == target.host
    assert (httpx.URL(plain).port or 443) == target.port


@pytest.mark.parametrize(
    "address",
    ["a@example.org", "first.last+tag@sub.example.org", "o'hara@example.org", "a@localhost", f"{'a' * 64}@example.org"],
)
def test_a_mail_address_is_taken_as_it_is(address: str) -> None:
    assert checked_mail(f"  {address}\n") == address


@pytest.mark.parametrize(
    "address",
    [
        "", "a", "@example.net", "a@", "a@b@example.org", "a..b@example.org", ".a@example.org", "a.@example.org",
        "A <a@example.org>", "<a@example.org>", "a@example.org,b@example.org", "a@exa mple.org", "a@-example.org",
        "a@example..org", '"a b"@example.org', "ä@example.org", "a@bücher.example", "a@[127.0.0.1]", "a@127.0.0.1",
        "a@example.org\r\nBcc: b@example.org", "a\x00@example.org", f"{'a' * 65}@example.org", f"a@{'b' * 260}.org",
    ],
)  # fmt: skip
def test_what_is_no_mail_address_is_refused_without_being_repeated(address: str) -> None:
    with pytest.raises(RecipientInvalid) as caught:
        checked_mail(address)
    assert len(address) < 3 or address not in str(caught.value)


def test_a_sender_may_have_a_name_in_any_script_and_no_second_address() -> None:
    assert mailbox("Prüfer & Söhne <reviews@example.org>") == ("Prüfer & Söhne", "reviews@example.org")
    assert mailbox("reviews@example.org") == ("", "reviews@example.org")
    assert [mailbox(text) for text in ("A <a@b>, B <b@c>", "A\n<a@b>", "A <a>", "<a@b>")] == [None] * 4
    assert not is_mail_address("Reviews <a@example.org>")
