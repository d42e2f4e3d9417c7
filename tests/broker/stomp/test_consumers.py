from __future__ import annotations

import pytest

from annulet.broker.broker import Broker
from annulet.broker.stomp.consumers import AUTO, CLIENT, CLIENT_INDIVIDUAL, StompConsumer, tag_for
from annulet.core.base.settings import ConsumerSettings
from annulet.core.model.consumer import CreditWindow
from annulet.wire.stomp.states import ACKNOWLEDGE_MODES
from tests.broker.stomp.peer import Peer


def test_ids_and_destinations_cannot_be_mistaken_for_each_other() -> None:
    assert tag_for("q", "q") != tag_for("", "q")
    assert (AUTO, CLIENT, CLIENT_INDIVIDUAL) == ACKNOWLEDGE_MODES


@pytest.mark.parametrize("mode", ACKNOWLEDGE_MODES)
async def test_only_auto_settles_by_itself(broker: Broker, mode: str) -> None:
    peer = await Peer(broker).open()
    session = peer.connection.session
    assert session is not None
    queue = broker.hosts["/"].declare_queue("q", now=broker.clock(), durable=False)
    consumer = StompConsumer(
        session, queue, "id:1", identifier="1", destination="/queue/q", mode=mode, window=CreditWindow(3),
        exclusive=False, settings=ConsumerSettings(priority=7),
    )  # fmt: skip
    assert consumer.auto_acknowledge is (mode == AUTO)
    assert (consumer.priority, consumer.window.messages_max, consumer.outstanding) == (7, 3, {})
