"""Which checkpoint may have which lease: the whole table."""

from __future__ import annotations

import pytest

from annulet.bulk.protocol.errors import InvalidRequestError, LeaseGoneError, LeaseInUseError
from annulet.bulk.reading.adoption import (
    LEASE_NAME_MAX,
    LeaseRequest,
    check_request,
    check_takeover,
    continue_lease,
    continue_without,
)
from annulet.bulk.reading.lease import Lease
from annulet.core.base.settings import QueueSettings
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects


def lease(owner: str = "", last: int = 5) -> Lease:
    made = Lease("/", "l", Queue("q", QueueSettings(), NodeEffects()), generated=False, now=0)
    made.owner = owner
    made.last = last
    return made


def request(
    *, fresh: bool = False, position: int = 5, queue: str = "q", loss: bool = False, on: str = "fail"
) -> LeaseRequest:
    return LeaseRequest("/", "l", queue, "me", fresh, position, on_existing=on, fail_on_data_loss=not loss)


@pytest.mark.parametrize("owner", ["", "me"])
def test_its_own_or_an_unclaimed_lease_is_continued(owner: str) -> None:
    assert continue_lease(request(), lease(owner)) == 0
    check_takeover(request(fresh=True), lease(owner))


def test_that_of_another_checkpoint_is_not() -> None:
    with pytest.raises(LeaseInUseError, match="taken over"):
        continue_lease(request(on="resume"), lease("other"))
    with pytest.raises(LeaseInUseError, match="onExistingLease"):
        check_takeover(request(fresh=True), lease("other"))
    for choice in ("resume", "release"):
        check_takeover(request(fresh=True, on=choice), lease("other"))
    for decide in (check_takeover, continue_lease):
        with pytest.raises(LeaseInUseError, match="reads queue 'q', not 'other'"):
            decide(request(queue="other"), lease("me"))


def test_positions_the_broker_does_not_know() -> None:
    with pytest.raises(LeaseGoneError, match="older than the checkpoint"):
        continue_lease(request(position=8), lease("me"))
    forgotten = lease("me")
    assert continue_lease(request(position=8, loss=True), forgotten) == 3
    assert forgotten.last == 8


def test_a_lease_that_is_gone() -> None:
    with pytest.raises(LeaseGoneError, match="lease range gone"):
        continue_without(request(), lease())
    new = lease(last=0)
    continue_without(request(position=7, loss=True), new)
    assert (new.acknowledged, new.last) == (7, 7)


@pytest.mark.parametrize(
    ("name", "right"), [("", False), ("x", True), ("x" * LEASE_NAME_MAX, True), ("x" * (LEASE_NAME_MAX + 1), False)]
)
def test_names_have_a_length(name: str, right: bool) -> None:
    asked = LeaseRequest("/", name, "q", "me", fresh=True)
    if right:
        check_request(asked)
    else:
        with pytest.raises(InvalidRequestError):
            check_request(asked)
