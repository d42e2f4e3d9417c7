"""A client of AMQP 0-9-1 with confirms, and a disk that is full."""

from __future__ import annotations

import pytest
from pamqp import commands

from annulet.broker.broker import Broker
from tests.broker.amqp091.peer import Peer


async def confirming(broker: Broker, queue: str = "q", **declare: bool) -> Peer:
    """Return a client whose channel 1 has confirms and a queue."""
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(queue=queue, **declare), commands.Confirm.Select())
    await peer.take()
    return peer


def fill_disk(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker.log, "has_room", lambda size, now: False)
