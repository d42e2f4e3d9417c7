from __future__ import annotations

import pytest
import structlog

from annulet.broker.network.listening import PeerFacts
from annulet.broker.security.admission import EXPLANATIONS_PER_SECOND, Admission
from annulet.broker.settings.limits import Limits

PEER = PeerFacts("10.0.0.1", 1)
OTHER = PeerFacts("10.0.0.2", 1)


def admission(**limits: int) -> Admission:
    return Admission(Limits(**limits))  # type: ignore[arg-type]


def test_a_connections_life_leaves_nothing_behind() -> None:
    gate = admission(max_connections_per_address=5, max_connections_per_user=5)
    assert gate.may_connect(PEER) == ""
    assert (gate.connections, gate.handshakes, gate.by_address) == (1, 1, {"10.0.0.1": 1})
    assert gate.may_open("alice", PEER) == ""
    assert (gate.connections, gate.handshakes, gate.by_user) == (1, 0, {"alice": 1})
    gate.closed(PEER, "alice")
    assert gate.may_connect(PEER) == ""
    gate.closed(PEER)  # before its login
    assert (gate.connections, gate.handshakes, gate.by_user, gate.by_address) == (0, 0, {}, {})


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("limit", ["max_connections", "max_handshakes", "max_connections_per_address"])
def test_connections_up_to_each_limit(limit: str, count: int) -> None:
    gate = admission(**{limit: 3})
    reasons = [gate.may_connect(PEER) for _ in range(count)]
    assert [reason == "" for reason in reasons] == [True, True, True, False][:count]
    assert gate.refused[limit] == max(0, count - 3)
    if count > 3:
        assert f"which is the limit ({limit})" in reasons[-1]
        gate.closed(PEER)
        assert gate.may_connect(PEER) == "", "room again"


def test_limits_of_addresses_and_users_are_each_ones_own() -> None:
    gate = admission(max_connections_per_address=1, max_connections_per_user=1)
    assert [gate.may_connect(peer) == "" for peer in (PEER, PEER, OTHER)] == [True, False, True]
    assert [gate.may_open(user, PEER) == "" for user in ("alice", "alice", "bob")] == [True, False, True]
    assert (gate.refused["max_connections_per_address"], gate.refused["max_connections_per_user"]) == (1, 1)


def test_zero_is_no_limit() -> None:
    gate = admission()
    assert all(gate.may_connect(PEER) == "" and gate.may_open("alice", PEER) == "" for _ in range(500))


def test_handshakes_free_their_place_with_the_login() -> None:
    gate = admission(max_handshakes=1)
    assert gate.may_connect(PEER) == ""
    assert gate.may_connect(PEER) != ""
    assert not gate.handshake_began(PEER)
    assert gate.may_open("alice", PEER) == ""
    assert gate.handshake_began(PEER)
    assert gate.may_connect(PEER) != ""
    gate.handshake_ended(PEER)
    assert gate.may_connect(PEER) == ""
    assert gate.refused["max_handshakes"] == 3


def test_explanations_are_bounded_by_the_second() -> None:
    now = [10.0]
    gate = Admission(Limits(), clock=lambda: now[0])
    assert [gate.may_explain() for _ in range(EXPLANATIONS_PER_SECOND + 1)].count(True) == EXPLANATIONS_PER_SECOND
    assert not gate.may_explain()
    now[0] += 1
    assert gate.may_explain()


def test_what_peers_cause_is_counted_and_logged() -> None:
    gate = admission(max_connections=1)
    with structlog.testing.capture_logs() as logs:
        gate.may_connect(PEER)
        gate.may_connect(PEER)
        gate.note_timed_out("10.0.0.1:1", 10)
        gate.note_idle("10.0.0.1:1", 60)
        gate.note_silent("10.0.0.1:1", 60)
        gate.note_never_open("10.0.0.1:1", 403, "refused")
    assert [line["event"] for line in logs] == [
        "connection refused",
        "handshake timed out",
        "connection idle",
        "missed heartbeats, closing",
        "connection closed before it was open",
    ]
    assert (logs[0]["limit"], logs[0]["peer"]) == ("max_connections", "10.0.0.1:1")
    assert (gate.handshakes_timed_out, gate.idle_closed) == (1, 1)


def test_limits_that_ended_connections_met_are_added_up_under_their_settings_names() -> None:
    made = admission()
    made.note_limits("AMQP 1.0", {"max_frame_size": 1, "handle_max": 2})
    made.note_limits("AMQP 1.0", {"max_frame_size": 1, "link_credit": 1})
    made.note_limits("AMQP 0-9-1", {"frame_max": 1})
    assert made.limit_hits == {
        ("AMQP 1.0", "frame_max"): 2,
        ("AMQP 1.0", "max_links_per_session"): 2,
        ("AMQP 1.0", "link_credit"): 1,
        ("AMQP 0-9-1", "frame_max"): 1,
    }


def test_one_address_takes_no_more_handshakes_than_its_share() -> None:
    gate = admission(max_handshakes=10, max_handshakes_per_address=2)
    assert [gate.may_connect(PEER) == "", gate.handshake_began(PEER), gate.handshake_began(PEER)] == [True, True, False]
    assert "address 10.0.0.1" in gate.may_connect(PEER)
    assert gate.may_connect(OTHER) == "", "the others have their own"
    assert gate.refused["max_handshakes_per_address"] == 2
    assert gate.may_open("alice", PEER) == ""
    assert gate.handshake_began(PEER), "a connection that is logged in takes no such place"
    gate.handshake_ended(PEER)
    gate.handshake_ended(PEER)
    assert gate.may_connect(PEER) == ""
    gate.closed(PEER)
    gate.closed(OTHER)
    assert (gate.handshakes, gate.handshakes_by_address) == (0, {})


def test_no_share_of_its_own_leaves_the_limit_of_all() -> None:
    gate = admission(max_handshakes=3, max_handshakes_per_address=0)
    assert [gate.handshake_began(PEER) for _ in range(4)] == [True, True, True, False]
    assert gate.refused["max_handshakes"] == 1


def test_addresses_that_one_machine_chooses_for_itself_count_as_one() -> None:
    gate = admission(max_connections_per_address=1)
    first, second, other = (PeerFacts(address, 1) for address in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"))
    assert [gate.may_connect(peer) == "" for peer in (first, second, other)] == [True, False, True]
    gate.closed(first)
    assert gate.may_connect(second) == ""
