"""What legs of a send claim from limits."""

from __future__ import annotations

from annulet.core.base.settings import OVERFLOW_REJECT, QueueSettings
from annulet.core.configuration.address_limits import AddressLimits
from annulet.core.host.address_accounts import AddressAccount
from annulet.core.host.send_plan import ROUTED, Claims, Leg
from annulet.core.queue.queue import Queue
from tests.core.helpers import RecordingEffects, make_message, make_queue


def rejecting():
    return Queue("full", QueueSettings(max_length=1, overflow=OVERFLOW_REJECT), RecordingEffects())


def test_nothing_is_claimed_at_first():
    claims, queue = Claims(), rejecting()
    amount = claims.of_queue(queue)
    assert (amount.messages, amount.bytes) == (0, 0)
    assert not claims.has_identifier("a", "1")


def test_legs_add_up_by_queue_account_and_id():
    claims, queue, plain = Claims(), rejecting(), make_queue()
    account = AddressAccount("a", AddressLimits(max_messages=5))
    for body, mark in (("abc", "1"), ("de", "")):
        leg = Leg(make_message(body), "a", [queue, plain], mark)
        assert leg.fate == ROUTED
        leg.account = account
        claims.add(leg)
    for amount in (claims.of_queue(queue), claims.of_account(account)):
        assert (amount.messages, amount.bytes) == (2, 5)
    assert claims.of_queue(plain).messages == 0  # it refuses nothing, so nobody asks
    assert claims.has_identifier("a", "1")
    assert not claims.has_identifier("b", "1")
    assert not claims.has_identifier("a", "")


def test_what_an_address_will_page_is_claimed_as_such():
    claims, account = Claims(), AddressAccount("a", AddressLimits(max_messages=2))
    for body in ("a", "bb", "ccc", "dddd"):
        leg = Leg(make_message(body), "a", [make_queue()], "")
        leg.account = account
        claims.add(leg)
    amount = claims.of_account(account)
    assert (amount.messages, amount.bytes, amount.paged, amount.paged_bytes) == (4, 10, 2, 7)
    assert (account.messages, account.paged_count) == (0, 0)


def test_a_leg_says_what_it_is():
    assert repr(Leg(make_message(), "a", [make_queue()], "")) == "<Leg 'a' routed to 1 queues>"
