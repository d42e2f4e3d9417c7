"""Limits given at run time, and where connections and channels meet them."""

from __future__ import annotations

import pytest

from annulet.broker.network.listening import PeerFacts
from annulet.broker.security.admission import LIMIT_GIVEN, Admission
from annulet.broker.security.given_limits import VALUE_MOST, GivenLimits, check_limit
from annulet.broker.settings.limits import Limits
from annulet.core.base.errors import InvalidArgument
from annulet.store.database.definitions import USER, VIRTUAL_HOST, LimitRecord

PEER = PeerFacts("10.0.0.1", 50_000)


def gate(kind: str, name: str, limit: str, value: int) -> Admission:
    given = GivenLimits()
    given.replace([LimitRecord(kind, name, limit, value)])
    admission = Admission(Limits(), given=given)
    for _ in range(10):
        assert admission.may_connect(PEER) == ""
    return admission


def test_connections_of_a_user() -> None:
    admission = gate(USER, "ann", "max-connections", 2)
    answers = [admission.may_open(user, PEER, "/") for user in ("ann", "ann", "ann", "bob")]
    assert answers == ["", "", answers[2], ""]
    assert answers[2].startswith("user 'ann' may have 2 connections (max-connections)")
    admission.closed(PEER, "ann", "/")
    assert admission.may_open("ann", PEER, "/") == ""
    assert admission.refused[LIMIT_GIVEN] == 1


def test_connections_in_a_virtual_host() -> None:
    admission = gate(VIRTUAL_HOST, "shop", "max-connections", 1)
    assert admission.may_open("ann", PEER, "shop") == ""
    assert "vhost 'shop' may have 1 connections" in admission.may_open("bob", PEER, "shop")
    assert admission.may_open("bob", PEER, "/") == ""
    admission.lingers("ann", "shop")
    assert admission.may_open("bob", PEER, "shop") == ""
    assert admission.by_host == {"/": 1, "shop": 1}


def test_channels_of_a_user() -> None:
    admission = gate(USER, "ann", "max-channels", 1)
    assert admission.may_have_channel("ann") == ""
    admission.channel_opened("ann")
    assert "user 'ann' may have 1 channels (max-channels)" in admission.may_have_channel("ann")
    assert admission.may_have_channel("bob") == ""
    admission.channel_closed("ann")
    assert admission.may_have_channel("ann") == ""


@pytest.mark.parametrize(("value", "lets_in"), [(0, False), (-1, True)])
def test_nothing_and_no_limit(value: int, lets_in: bool) -> None:
    assert (gate(USER, "ann", "max-connections", value).may_open("ann", PEER, "/") == "") is lets_in


@pytest.mark.parametrize("value", ["5", True, 1.5, None, VALUE_MOST + 1])
def test_values_that_are_no_numbers_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"limit 'max-queues' is .*; give a whole number"):
        check_limit(VIRTUAL_HOST, "max-queues", value)
    assert check_limit(VIRTUAL_HOST, "max-queues", VALUE_MOST) == VALUE_MOST
    assert check_limit(VIRTUAL_HOST, "max-queues", -7) == -1
