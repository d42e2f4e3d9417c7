"""The oracle, checked by hand on examples small enough to see: what the core is compared with must be right itself."""

from __future__ import annotations

from annulet.testing.oracle import DELIVERING, GONE, PENDING, OracleConsumer, OracleSession, QueueOracle

NOW = 1000


def oracle(*, ring: int = -1, keyed: bool = False, keep: int = 1, ttl: int = -1) -> QueueOracle:
    return QueueOracle(ring=ring, keyed=keyed, keep=keep, ttl=ttl)


def consumer(
    session: OracleSession, messages: int = -1, octets: int = -1, *, automatic: bool = False, priority: int = 0
) -> OracleConsumer:
    return OracleConsumer(session, "c", messages, octets, automatic, priority)


def publish(model: QueueOracle, *keys: str | None, size: int = 1, expires_at: int = 0) -> None:
    for key in keys:
        model.publish(key, size, expires_at, NOW)


def waiting(model: QueueOracle) -> list[int]:
    return [message.number for message in model.pending()]


def test_a_ring_keeps_the_last() -> None:
    model = oracle(ring=2)
    publish(model, None, None, None, None)
    assert (waiting(model), model.reasons) == ([3, 4], {"replaced-ring": 2})


def test_a_key_is_replaced_before_the_ring_applies() -> None:
    model = oracle(ring=2, keyed=True)
    publish(model, "a", "b", "b")
    assert (waiting(model), model.reasons) == ([1, 3], {"replaced-key": 1})


def test_the_last_two_of_a_key_stay_and_messages_without_key_too() -> None:
    model = oracle(keyed=True, keep=2)
    publish(model, "a", None, "a", "a", None)
    assert waiting(model) == [2, 3, 4, 5]


def test_consumers_take_turns_within_their_windows() -> None:
    model, session = oracle(), OracleSession()
    first, second = consumer(session, 2), consumer(session, 1)
    model.attach(first, NOW)
    model.attach(second, NOW)
    publish(model, None, None, None, None)
    assert [[m.number for m in model.held_by(each)] for each in (first, second)] == [[1, 3], [2]]
    assert waiting(model) == [4]


def test_bytes_let_one_oversized_message_through() -> None:
    model, session = oracle(), OracleSession()
    model.attach(consumer(session, octets=3), NOW)
    publish(model, None, size=9)
    publish(model, None, size=1)
    assert (list(session.held), waiting(model)) == ([1], [2])


def test_what_returns_serves_first_and_then_obeys_the_ring() -> None:
    model, session = oracle(ring=1), OracleSession()
    model.attach(consumer(session, 2), NOW)
    publish(model, None, None, None)
    assert waiting(model) == [3]
    model.close(session, NOW)
    assert (waiting(model), model.reasons) == ([3], {"replaced-ring": 2})


def test_a_superseded_value_does_not_come_back() -> None:
    model, session = oracle(keyed=True), OracleSession()
    publish(model, "a")
    model.get(session, NOW, automatic=False)
    publish(model, "a")
    model.give_back([message for _, message in model.take(session, 1, multiple=False)], NOW)
    assert [message.state for message in model.messages] == [GONE, PENDING]


def test_time_is_the_smaller_of_the_two_and_waits_for_a_delivery() -> None:
    model, session = oracle(ttl=10), OracleSession()
    publish(model, None, expires_at=NOW + 5)
    publish(model, None, expires_at=NOW + 50)
    assert [message.expires_at for message in model.messages] == [NOW + 5, NOW + 10]
    model.get(session, NOW, automatic=False)
    model.expire(NOW + 10)
    assert [message.state for message in model.messages] == [DELIVERING, GONE]


def test_commit_publishes_then_settles_and_rollback_forgets() -> None:
    model, session = oracle(), OracleSession()
    model.attach(consumer(session, 1), NOW)
    publish(model, None, None)
    session.in_transaction = [(tag, message, "acknowledge") for tag, message in model.take(session, 1, multiple=False)]
    model.rollback(session)
    assert list(session.held) == [1]
    session.in_transaction = [(tag, message, "acknowledge") for tag, message in model.take(session, 1, multiple=False)]
    model.commit(session, [(None, 1, 0)], NOW)
    assert model.reasons == {"acknowledged": 1}
    assert session.received == [(1, 1), (2, 2)]
    assert waiting(model) == [3]


def test_nobody_is_served_while_the_connection_is_full() -> None:
    model, session = oracle(), OracleSession(writable=False)
    model.attach(consumer(session, automatic=True), NOW)
    publish(model, None)
    assert waiting(model) == [1]
    session.writable = True
    model.dispatch()
    assert model.reasons == {"acknowledged": 1}


def test_purge_and_trim() -> None:
    model = oracle()
    publish(model, None, None, None)
    model.resize(2, trim=False)
    assert waiting(model) == [1, 2, 3]
    model.resize(2, trim=True)
    assert waiting(model) == [2, 3]
    model.purge()
    assert (waiting(model), model.reasons) == ([], {"replaced-ring": 1, "purged": 2})
