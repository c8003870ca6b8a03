"""A worker that lasts: messages it does not believe, parts that do not end unseen, databases that go and come back."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import CONTRACT, ENGINE, FAULTS, STORE, Guard

CONTROL: Final = "tests/engine/worker/test_control.py"
ABSENCE: Final = "tests/contract/test_absence.py"
LOSSES: Final = "tests/engine/enqueue/test_losses.py"
RETURNS: Final = f"{FAULTS}/test_returns.py"
PARTS: Final = "tests/engine/worker/test_parts.py"

GUARDS: Final = (
    Guard(
        "a cancel is looked up before a handler is stopped",
        f"{ENGINE}/cancels.py",
        "[running for running in held if running.claim in gone]",
        "held",
        (f"{CONTROL}::test_a_forged_cancel_stops_nothing_and_costs_no_attempt",),
    ),
    Guard(
        "messages are answered together",
        f"{ENGINE}/paced.py",
        "wait = self._last + self._seconds - loop.time()",
        "wait = 0",
        (f"{CONTROL}::test_what_many_messages_ask_for_is_done_at_once_and_then_once_for_all_of_them",),
    ),
    Guard(
        "a part that ends takes its worker along",
        f"{ENGINE}/parts.py",
        "            self._ended(name, error)\n",
        "",
        (
            f"{PARTS}::test_a_worker_that_has_lost_a_part_ends_and_says_which[plan]",
            f"{PARTS}::test_a_listener_that_has_ended_listens_again",
        ),
    ),
    Guard(
        "a heartbeat goes on whatever the database says",
        f"{ENGINE}/heartbeat.py",
        "        except Exception as error:\n            await self._close()",
        "        except connect.AWAY as error:\n            await self._close()",
        (f"{PARTS}::test_a_heartbeat_goes_on_after_any_error_of_the_database",),
    ),
    Guard(
        "a heartbeat that ends is noticed",
        f"{ENGINE}/heartbeat.py",
        "                self._died(error)\n",
        "",
        (f"{PARTS}::test_a_worker_that_has_lost_a_part_ends_and_says_which[heartbeat]",),
    ),
    Guard(
        "a read-only server is away",
        f"{CONTRACT}/absence.py",
        '    "25006": F.NETWORK_RESET,',
        '    "25999": F.NETWORK_RESET,',
        (f"{ABSENCE}::test_a_handler_whose_database_went_away_is_retried",),
    ),
    Guard(
        "a handler that lost its connection has no bug",
        f"{CONTRACT}/classify.py",
        "absence.is_lost_connection(error) or _follows_from_a_loss(error)",
        "False",
        (f"{ABSENCE}::test_a_handler_whose_database_went_away_is_retried",),
    ),
    Guard(
        "a server that cannot be reached is no bug of a handler",
        f"{CONTRACT}/classify.py",
        " or absence.failed_to_connect(error)",
        "",
        (f"{ABSENCE}::test_a_server_that_cannot_be_reached_is_no_bug_of_the_handler",),
    ),
    Guard(
        "a doubt is asked of the connection, not of its wrapping",
        f"{ENGINE}/enqueue.py",
        "            refuse_doubt(committed)\n",
        "            refuse_doubt(connection)\n",
        (f"{LOSSES}::test_a_commit_is_no_failure_because_its_connection_is_lost_behind_the_answer[in_a_transaction]",),
    ),
    Guard(
        "… by the connection of claims too",
        f"{STORE}/kept.py",
        "connection = bare(self._connection)",
        "connection = self._connection",
        (f"{LOSSES}::test_claims_are_kept_although_their_connection_is_lost_behind_the_answer",),
    ),
    Guard(
        "a connection that cannot be reset takes nothing back",
        f"{ENGINE}/producer.py",
        "            except connect.AWAY:  # what was done",
        "            except KeyError:  # what was done",
        (f"{LOSSES}::test_a_transaction_that_committed_is_no_failure_because_its_connection_cannot_be_reset",),
    ),
    Guard(
        "a listener does not wait long for a server that may be back",
        f"{ENGINE}/listener.py",
        "LONGEST_DELAY: Final = 1.0",
        "LONGEST_DELAY: Final = 30.0",
        (f"{RETURNS}::test_a_server_that_was_away_for_long_is_listened_to_within_two_seconds",),
    ),
    Guard(
        "a listener is asked when others have lost the server",
        f"{ENGINE}/worker.py",
        "        self.listener.doubt()\n",
        "",
        (f"{RETURNS}::test_a_listener_that_fell_silent_is_asked_as_soon_as_the_worker_meets_an_absence",),
    ),
    Guard(
        "a lost poke is sent again",
        f"{ENGINE}/pokes.py",
        "for pause in (*AGAIN, None):",
        "for pause in (None,):",
        (f"{LOSSES}::test_a_poke_that_was_lost_with_its_connection_is_sent_again",),
    ),
    Guard(
        "a server that keeps silent is not waited for",
        f"{STORE}/hosts.py",
        "timeout=SILENCE if waiting else None",
        "timeout=None",
        (f"{RETURNS}::test_a_server_that_keeps_silent_does_not_hide_the_next_one",),
    ),
    Guard(
        "a pool that writes keeps no read-only connection",
        f"{STORE}/silence.py",
        'if "on" in (getattr(',
        'if "never" in (getattr(',
        (f"{RETURNS}::test_a_pool_that_writes_keeps_no_connection_to_a_server_that_does_not",),
    ),
    Guard(
        "a DSN may name several servers",
        f"{CONTRACT}/dsns.py",
        '[_place(unquote(place)) for place in places.split(",")]',
        "[_place(unquote(places))]",
        ("tests/contract/test_dsns.py::test_every_setting_that_is_a_dsn_may_name_several_servers",),
    ),
)
