from __future__ import annotations

from annulet.testing.oracle.records import OracleConsumer, OracleDelivery, OracleMessage, OracleSession, everything


def test_the_rank_decides_before_the_place() -> None:
    first = OracleMessage(1, rank=(-2,), place=(1, 9, 0))
    second = OracleMessage(2, rank=(-1,), place=(0, 1, 0))
    assert first.position < second.position


def test_only_a_browsers_delivery_is_browsed() -> None:
    session = OracleSession()
    message = OracleMessage(1)
    browser, plain = OracleConsumer(session, "b", browse="follow"), OracleConsumer(session, "c")
    assert [OracleDelivery(message, session, taker).browsed for taker in (browser, plain, None)] == [True, False, False]


def test_a_consumer_without_selector_takes_everything() -> None:
    assert OracleConsumer(OracleSession(), "c").selector is everything
    assert everything({})
