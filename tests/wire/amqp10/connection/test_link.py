from __future__ import annotations

import pytest

from annulet.wire.amqp10.connection.link import IncomingDelivery, Link, OutgoingDelivery, UnsettledDelivery
from annulet.wire.amqp10.connection.session import EngineSession
from annulet.wire.amqp10.connection.states import LinkState
from annulet.wire.amqp10.frames.performatives import RECEIVER_FIRST, SENDER_MIXED


def test_a_link_begins_unanswered_without_credit_and_with_the_modes_of_the_standard() -> None:
    link = Link(EngineSession(0, 0, 1), "name", 5, True)
    assert link.state is LinkState.ATTACH_RECEIVED
    assert not link.attached
    assert (link.credit, link.limit, link.handle, link.remote_handle) == (0, 0, -1, 5)
    assert (link.snd_settle_mode, link.rcv_settle_mode) == (SENDER_MIXED, RECEIVER_FIRST)


def test_links_share_nothing() -> None:
    session = EngineSession(0, 0, 1)
    one, other = Link(session, "a", 0, True), Link(session, "b", 1, True)
    one.unsettled[b"a"] = None
    one.unsent.append(1)
    one.properties["p"] = 1
    assert (other.unsettled, other.unsent, other.properties) == ({}, [], {})


def test_deliveries_keep_what_they_are_given() -> None:
    link = Link(EngineSession(0, 0, 1), "a", 0, True)
    incoming = IncomingDelivery(link, 7, b"t", 3, True)
    assert (incoming.link, incoming.delivery_id, incoming.delivery_tag) == (link, 7, b"t")
    assert (incoming.message_format, incoming.settled, incoming.payload) == (3, True, b"")
    outgoing = OutgoingDelivery(link, 8, b"u", b"body", 4, False)
    assert (outgoing.delivery_id, outgoing.payload, outgoing.offset, outgoing.started) == (8, b"body", 0, False)
    unsettled = UnsettledDelivery(link, b"t", True)
    assert (unsettled.tag, unsettled.second, unsettled.state) == (b"t", True, None)


def test_a_misspelt_attribute_is_an_error() -> None:
    link = Link(EngineSession(0, 0, 1), "a", 0, True)
    with pytest.raises(AttributeError):
        link.credits = 5  # type: ignore[attr-defined]
