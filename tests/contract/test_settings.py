"""Settings: read once, checked as a whole, and silent about secrets."""

from pathlib import Path
from typing import Any

import pytest

from penstock.contract.errors import SettingsInvalid
from penstock.embedded import EmbeddedServerError, default_home
from penstock.settings import PREFIX, Notify, Settings, load_settings

SECRET = "s3cr3t-canary"  # noqa: S105 - a canary, searched for below


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have settings of their own."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"{PREFIX}{name.upper()}", raising=False)


def refusal(**overrides: Any) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(**overrides)
    assert caught.value.__context__ is None
    return str(caught.value)


@pytest.mark.contract("D-42", "C-25", "D-41", "D-43")
def test_the_defaults_are_those_of_the_contract() -> None:
    settings = load_settings()

    assert settings.poll_seconds == 30
    assert (settings.drain_plain, settings.drain_contract, settings.drain_startup) == (1000, 10, 100)
    assert (settings.lease_seconds, settings.concurrency, settings.processes) == (300, 100, 1)
    assert settings.notify is Notify.AFTER_COMMIT
    assert settings.dsn is None


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


@pytest.mark.contract("D-73")
def test_the_environment_sets_what_the_code_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_POLL_SECONDS", "2")
    monkeypatch.setenv("PENSTOCK_DSN", "postgresql://u@h/db")
    monkeypatch.setenv("PENSTOCK_LISTEN_DSN", "")
    monkeypatch.setenv("PENSTOCK_HOME", "/srv/penstock")

    settings = load_settings(concurrency=7, processes=None)

    assert settings.poll_seconds == 2
    assert settings.listener_dsn == "postgresql://u@h/db"
    assert settings.home == Path("/srv/penstock")
    assert (settings.concurrency, settings.processes) == (7, 1)


@pytest.mark.parametrize("named", ["state", "./state", "~/state"])
def test_a_home_is_one_place_wherever_a_process_stands(
    named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_HOME", named)
    assert load_settings().home == default_home() == tmp_path / "state"


@pytest.mark.parametrize("named", ["/srv/\udcff", "~nobody-of-this-name/state"])
def test_a_home_that_can_be_none_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", named)
    assert refusal().startswith("PENSTOCK_HOME must be the path of a directory")
    with pytest.raises(EmbeddedServerError, match="PENSTOCK_HOME must be the path of a directory"):
        default_home()


@pytest.mark.parametrize("name", ["metrics_host", "web_host"])
@pytest.mark.parametrize("host", ["\udcff", "a" * 300, "", "127.0.0.1:80", "http://localhost"])
def test_a_host_that_nobody_can_listen_on_is_refused(name: str, host: str) -> None:
    assert refusal(**{name: host}).startswith(f"{PREFIX}{name.upper()} must be a name or an address of this machine")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "fe80::1%eth0", "localhost", "my_host.example"])  # noqa: S104
def test_a_host_of_this_machine_is_taken(host: str) -> None:
    assert load_settings(web_host=host).web_host == host


def test_a_name_leaves_room_for_the_numbers_of_its_processes() -> None:
    assert load_settings(worker_name="x" * 98, processes=9).processes == 9
    assert load_settings(worker_name="x" * 100, processes=1).processes == 1
    assert "as in name-10" in refusal(worker_name="x" * 98, processes=10)


@pytest.mark.contract("D-88", "C-29")
def test_the_listener_has_a_dsn_of_its_own_past_a_pooler() -> None:
    settings = load_settings(dsn="postgresql://u@pooler/db", listen_dsn="postgresql://u@direct/db")

    assert settings.listener_dsn == "postgresql://u@direct/db"


@pytest.mark.contract("D-71", "C-27")
@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("on", Notify.AFTER_COMMIT),
        ("true", Notify.AFTER_COMMIT),
        ("1", Notify.AFTER_COMMIT),
        ("after_commit", Notify.AFTER_COMMIT),
        ("IN_TRANSACTION", Notify.IN_TRANSACTION),
        ("off", Notify.OFF),
        ("False", Notify.OFF),
        ("0", Notify.OFF),
    ],
)
def test_notify_is_a_switch_of_the_environment(monkeypatch: pytest.MonkeyPatch, word: str, meaning: Notify) -> None:
    monkeypatch.setenv("PENSTOCK_NOTIFY", word)

    assert load_settings().notify is meaning


@pytest.mark.contract("Q-94")
@pytest.mark.parametrize("written", ["4000,8000", "[4000, 8000]", " 4000 , 8000 "])
def test_variables_override_the_values_of_a_profile(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("PENSTOCK_PROFILE", "prod")
    monkeypatch.setenv("PENSTOCK_MAX_JOBS_PER_RUN", "50")
    monkeypatch.setenv("PENSTOCK_RETRY_BACKOFF_SECONDS", written)

    profile = load_settings().active_profile()

    assert (profile.name, profile.max_jobs_per_run, profile.max_runtime_seconds) == ("prod", 50, 240)
    assert profile.retry_backoff_seconds == (4000, 8000)


@pytest.mark.contract("Q-85")
@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"max_jobs_per_run": 0}, "max_jobs_per_run must be a whole number from 1"),
        ({"max_runtime_seconds": -1}, "max_runtime_seconds must be a whole number from 1"),
        ({"claim_timeout_seconds": 100}, "must be above max_runtime_seconds"),
        ({"profile": "prod", "worker_minutes": 30}, "60..120 in prod"),
        ({"profile": "prod", "arrival_rate": 1000}, "drain 200 an hour, but 1000 arrive"),
        ({"collector_max_items": 10}, "raise collector_max_items to 75"),
    ],
)
def test_a_profile_that_makes_no_sense_stops_the_start(overrides: dict[str, Any], words: str) -> None:
    message = refusal(**overrides)

    assert message.startswith("PENSTOCK_PROFILE=")
    assert words in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("poll_seconds", 0),
        ("poll_seconds", -30),
        ("poll_seconds", "nan"),
        ("concurrency", 0),
        ("concurrency", 10**9),
        ("concurrency", "many"),
        ("processes", -1),
        ("lease_seconds", 0),
        ("lease_seconds", "inf"),
        ("grace_seconds", -1),
        ("drain_plain", 0),
        ("drain_contract", 0),
        ("drain_startup", -5),
        ("payload_max_bytes", 0),
        ("payload_max_bytes", 10**12),
        ("payload_max_depth", 0),
        ("payload_max_depth", 100_000),
        ("rss_limit_mb", 1),
        ("flush_ms", -1),
        ("pool_max", 1),
        ("metrics_port", 70_000),
        ("keep_jobs_days", 0),
        ("notify", "maybe"),
        ("profile", "production"),
        ("log_level", "loud"),
        ("log_format", "xml"),
        ("worker_name", "x" * 101),
        ("worker_name", "a\nb"),
        ("dsn", "host=localhost dbname=x"),
        ("dsn", "mysql://u@h/db"),
        ("listen_dsn", "postgresql://u@h:port/db"),
    ],
)
def test_an_absurd_value_is_refused_with_its_variable_and_the_way_out(name: str, value: object) -> None:
    message = refusal(**{name: value})

    assert message.startswith(f"PENSTOCK_{name.upper()} ")
    assert "unset it" in message


def test_a_small_harmless_value_is_repeated_for_the_reader() -> None:
    assert refusal(concurrency=-3) == (
        "PENSTOCK_CONCURRENCY must be greater than or equal to 1, not -3; mend it, or unset it for the default 100"
    )


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"heartbeat_seconds": 101, "lease_seconds": 300}, "at most a third of the lease; lower it to 100"),
        ({"listen_probe_seconds": 12}, "together at most 15 s"),
        ({"reconnect_initial_seconds": 40}, "the first delay must not be above the longest"),
        ({"pool_min": 20}, "the pool cannot keep 20 connections with a maximum of 10"),
        ({"keep_jobs_days": 400}, "the audit must be kept at least as long as the jobs"),
    ],
)
def test_values_that_contradict_each_other_are_refused_with_both_names(overrides: dict[str, Any], words: str) -> None:
    message = refusal(**overrides)

    assert words in message
    assert message.count("PENSTOCK_") == 2


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"smtp_username": "alex"}, "a login has both"),
        ({"smtp_tls": "off", "smtp_host": "mail.example.org"}, "off is for a server on this machine"),
    ],
)
def test_channels_that_make_no_sense_are_refused_with_both_names(overrides: dict[str, Any], words: str) -> None:
    message = refusal(**overrides)

    assert words in message
    assert message.count("PENSTOCK_") == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mail_from", "Reviews"),
        ("mail_from", "a@example.org, b@example.org"),
        ("mail_from", "Reviews\nBcc: <x@example.org>"),
        ("resend_url", "http://api.resend.com"),
        ("resend_url", "https://user@api.resend.com"),
        ("review_model_url", "ftp://models.example.org"),
        ("review_model_url", "https://models.example.org/?key=1"),
        ("smtp_host", "mail.example.org:25"),
        ("smtp_host", "127.1"),
        ("smtp_port", 0),
        ("smtp_tls", "maybe"),
        ("webhook_secret", "whsec_short"),
        ("webhook_allow", "10.1.2.3/16"),
        ("webhook_seconds", "inf"),
    ],
)
def test_a_channel_is_set_up_for_a_place_that_exists_or_not_at_all(name: str, value: object) -> None:
    message = refusal(**{name: value})

    assert message.startswith(f"PENSTOCK_{name.upper()} ")
    assert "Reviews" not in message.partition(" must be ")[0]


def test_channels_are_set_up_in_the_words_of_the_guide() -> None:
    settings = load_settings(
        mail_from="Prüfer <reviews@example.org>",
        smtp_host="localhost",
        smtp_tls="off",
        resend_url="http://127.0.0.1:8099/resend",
        webhook_allow="10.1.0.0/16,fd00::/8",
    )

    assert settings.webhook_allow == ("10.1.0.0/16", "fd00::/8")
    assert settings.smtp_when_uncertain == "send_again"


def test_a_setting_that_does_not_exist_is_refused() -> None:
    assert "there is no setting 'concurency'" in refusal(concurency=3)


def test_settings_do_not_change_once_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().concurrency = 3


TEXTS = {"home", "review_sources", "rewrite_routes", "worker_name"}


@pytest.mark.parametrize("name", sorted(set(Settings.model_fields) - TEXTS))
def test_no_refusal_repeats_a_secret_put_into_any_variable(name: str) -> None:
    assert SECRET not in refusal(**{name: f"mysql://user:{SECRET}@host/db"})


def test_neither_repr_nor_the_shown_dsn_holds_the_password() -> None:
    settings = load_settings(dsn=f"postgresql://user:{SECRET}@host/db", listen_dsn=f"postgresql://u:{SECRET}@h/db")

    assert SECRET not in repr(settings)
    assert SECRET not in str(settings)
    assert settings.shown_dsn == "postgresql://user:***@host/db"


def test_a_secret_is_not_repeated_when_two_values_contradict_each_other() -> None:
    assert SECRET not in refusal(dsn=f"postgresql://user:{SECRET}@host/db", heartbeat_seconds=299)
