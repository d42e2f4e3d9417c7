from __future__ import annotations

import pytest

from annulet.broker.connections.dialect import Dialect, QueueDeclaration
from annulet.testing import ThreadedBroker
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ChannelError
from tests.testing.conftest import channel_of


class Unlucky(Dialect):
    """Refuses queues with the number 13."""

    def queue(self, declared: QueueDeclaration) -> None:
        """Look at the name."""
        if "13" in declared.name:
            raise ChannelError(constants.PRECONDITION_FAILED, f"queue {declared.name!r} of {declared.vhost} is unlucky")


def test_the_rules_of_a_broker_come_before_its_effects(annulet: ThreadedBroker) -> None:
    annulet.do(lambda running: setattr(running.broker, "dialect", Unlucky()))
    with channel_of(annulet) as channel:
        channel.queue_declare("12")
        with pytest.raises(Exception, match="queue '13' of / is unlucky"):
            channel.queue_declare("13")
    with channel_of(annulet) as channel, pytest.raises(Exception, match="no queue '13'"):
        channel.queue_declare("13", passive=True)


@pytest.mark.parametrize("shared", [False, True])
def test_without_rules_a_window_is_what_the_client_asked_for(shared: bool) -> None:
    assert Dialect().shares_prefetch(1000, shared=shared) is shared
