"""Envelopes: sealed for one row of one home, and closed to everything else."""

from __future__ import annotations

import os
import pickle
import re
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apps.rewrite.envelope import NONCE, TAG, VERSION, EnvelopeBroken, HomeKey
from penstock.apps.rewrite.keyring import Keyring, TextKeyMissing, Wrapped, new_key
from penstock.contract.errors import SettingsInvalid
from penstock.contract.text_keys import parse_text_keys, written
from penstock.settings import load_settings

CANARY = "canary-7f3a91: you are too loud"
HOME = UUID(int=7)


@pytest.fixture
def key() -> HomeKey:
    return HomeKey(HOME, os.urandom(32))


@given(text=st.binary(max_size=4000), place=st.text(min_size=1, max_size=80))
def test_what_was_sealed_opens_again_and_shows_nothing_of_itself(text: bytes, place: str) -> None:
    key = HomeKey(HOME, os.urandom(32))
    sealed = key.seal(text, place=place)
    assert key.open(sealed, place=place) == text
    assert len(sealed) == 1 + NONCE + len(text) + TAG
    assert sealed[0] == VERSION
    assert len(text) < 4 or text not in sealed


def test_the_same_text_is_sealed_differently_every_time(key: HomeKey) -> None:
    sealed = [key.seal(b"again", place="p") for _ in range(200)]
    assert len({envelope[1 : 1 + NONCE] for envelope in sealed}) == 200
    assert len(set(sealed)) == 200


@pytest.mark.parametrize("where", ["version", "nonce", "text", "tag"])
def test_one_changed_bit_is_noticed(key: HomeKey, where: str) -> None:
    sealed = bytearray(key.seal(CANARY.encode(), place="p"))
    sealed[{"version": 0, "nonce": 3, "text": 1 + NONCE + 2, "tag": -1}[where]] ^= 1
    with pytest.raises(EnvelopeBroken):
        key.open(bytes(sealed), place="p")


@pytest.mark.parametrize("cut", [0, 1, NONCE, NONCE + TAG, -1])
def test_a_piece_of_an_envelope_does_not_open(key: HomeKey, cut: int) -> None:
    with pytest.raises(EnvelopeBroken):
        key.open(key.seal(CANARY.encode(), place="p")[:cut], place="p")


@pytest.mark.contract("A-08", "A-76")
def test_an_envelope_moved_to_another_row_or_home_does_not_open(key: HomeKey) -> None:
    request = uuid4()
    sealed = key.seal(CANARY.encode(), place=f"rewrite_requests/{request}")
    twin = HomeKey(uuid4(), key._key)
    for opener, place in (
        (key, f"rewrite_requests/{uuid4()}"), (key, f"rewrite_outputs/{request}"), (key, ""),
        (twin, f"rewrite_requests/{request}"), (HomeKey(HOME, os.urandom(32)), f"rewrite_requests/{request}"),
    ):  # fmt: skip
        with pytest.raises(EnvelopeBroken):
            opener.open(sealed, place=place)
    assert key.open(sealed, place=f"rewrite_requests/{request}") == CANARY.encode()


@pytest.mark.contract("A-82")
def test_no_error_and_no_repr_shows_text_or_key(key: HomeKey) -> None:
    sealed = key.seal(CANARY.encode(), place="p")
    with pytest.raises(EnvelopeBroken) as caught:
        key.open(sealed, place="q")
    error = caught.value
    assert (error.__cause__, error.__context__) == (None, None)
    shown = f"{error}{error!r}{key}{key!r}{Wrapped('k', sealed)!r}{Keyring.of(new_key('k'))!r}"
    for secret in (CANARY, "canary", key._key.hex(), repr(key._key)[2:-1], sealed.hex()):
        assert secret not in shown
    assert re.search(r"q of home 0+-.*7 does not open.*backup", str(error))


def test_a_fingerprint_tells_texts_apart_and_depends_on_the_home(key: HomeKey) -> None:
    assert key.fingerprint(b"ab", b"c") == key.fingerprint(b"ab", b"c")
    others = {
        key.fingerprint(b"a", b"bc"), key.fingerprint(b"abc"), key.fingerprint(b"ab", b"c", b""),
        HomeKey(HOME, os.urandom(32)).fingerprint(b"ab", b"c"),
    }  # fmt: skip
    assert len(others | {key.fingerprint(b"ab", b"c")}) == 5


# ------------------------------------------------------------------------ the keyring


def test_the_first_key_wraps_and_every_key_unwraps() -> None:
    old, new = new_key("k1"), new_key("k2")
    made, wrapped = Keyring.of(old).new_home_key(HOME)
    both = Keyring.of(f"{new},{old}")
    assert (both.first, both.key_ids) == ("k2", ("k2", "k1"))
    opened = both.unwrap(HOME, wrapped)
    sealed = made.seal(b"text", place="p")
    assert opened.open(sealed, place="p") == b"text"
    again = both.rewrap(HOME, wrapped)
    assert again.key_id == "k2"
    assert Keyring.of(new).unwrap(HOME, again).open(sealed, place="p") == b"text"


def test_a_wrapping_is_bound_to_its_home_and_its_key() -> None:
    ring = Keyring.of(f"{new_key('k1')},{new_key('k2')}")
    _, wrapped = ring.new_home_key(HOME)
    with pytest.raises(EnvelopeBroken):
        ring.unwrap(uuid4(), wrapped)
    with pytest.raises(EnvelopeBroken):
        ring.unwrap(HOME, Wrapped("k2", wrapped.wrapped_key))
    with pytest.raises(TextKeyMissing, match=r"'k9'.*keys status"):
        ring.unwrap(HOME, Wrapped("k9", wrapped.wrapped_key))


def test_two_homes_never_share_a_key() -> None:
    ring = Keyring.of(new_key("k1"))
    one, two = ring.new_home_key(HOME)[0], ring.new_home_key(HOME)[0]
    with pytest.raises(EnvelopeBroken):
        two.open(one.seal(b"x", place="p"), place="p")


def test_without_keys_the_application_does_not_begin() -> None:
    with pytest.raises(SettingsInvalid, match=r"PENSTOCK_TEXT_KEYS is not set.*keys new"):
        Keyring.from_settings(load_settings())


GOOD = written("k1", bytes(range(32)))


@pytest.mark.parametrize(
    ("given_keys", "why"),
    [
        ("s3cret", "id:key pairs"),
        ("k1:s3cret", "32 bytes"),
        (f"{GOOD},", "id:key pairs"),
        (f"k 1:{GOOD[3:]}", "id:key pairs"),
        (f"{GOOD},{written('k1', bytes(range(1, 33)))}", "one id twice"),
        (f"{GOOD},{written('k2', bytes(range(32)))}", "one key twice"),
        (written("k1", bytes(32)), "zeros"),
        (",".join(written(f"k{n}", bytes([n] * 32)) for n in range(1, 22)), "21 keys"),
    ],
)
def test_keys_that_make_no_sense_are_refused_without_a_word_of_them(given_keys: str, why: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"PENSTOCK_TEXT_KEYS .*{why}") as caught:
        load_settings(text_keys=given_keys)
    for pair in given_keys.split(","):
        secret = pair.partition(":")[2] or pair
        assert not secret or secret not in str(caught.value)


def test_the_setting_hides_its_value() -> None:
    settings = load_settings(text_keys=f"{GOOD}, {written('k2', bytes(range(9, 41)))}")
    assert Keyring.from_settings(settings).key_ids == ("k1", "k2")
    secret = GOOD.partition(":")[2]
    assert secret not in repr(settings)
    assert secret not in str(settings.model_dump())
    assert secret not in settings.model_dump_json()
    assert parse_text_keys(GOOD) == {"k1": bytes(range(32))}


def test_a_keyring_goes_into_no_log_by_accident() -> None:
    ring = Keyring.of(GOOD)
    assert bytes(range(32)) in pickle.dumps(ring._keys)  # the search below would find it
    assert "k1" not in repr(ring)
    assert repr(bytes(range(32)))[2:-1] not in repr(ring)
