"""The seam between a queue and what sends its removed messages on."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.model.forwarder import Forwarder
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, removed, send


class Collector(Forwarder):
    """Takes what expired, overflowed or was dead-lettered, and keeps the order of what happens."""

    def __init__(self) -> None:
        super().__init__()
        self.held = []
        self.sent = []

    def takes(self, queue, reason):
        return reason in (RemovalReason.EXPIRED, RemovalReason.OVERFLOW, RemovalReason.DEAD_LETTERED)

    def add(self, queue, entry, reason, now, loss):
        self.held.append((queue, entry, reason))
        self.waiting = True

    def flush(self, now):
        self.waiting = False
        held, self.held = self.held, []
        for queue, entry, reason in held:
            self.sent.append((entry.message.body.decode(), reason))
            queue.settle_record(entry)


def collecting(effects=None, **settings):
    forwarder = Collector()
    effects = RecordingEffects() if effects is None else effects
    return Queue("q", QueueSettings(**settings), effects, forwarder=forwarder), forwarder


def test_the_base_takes_nothing_and_would_be_wrong_to_be_given_something():
    forwarder = Forwarder()
    queue = Queue("q", QueueSettings(), RecordingEffects())
    assert not forwarder.takes(queue, RemovalReason.EXPIRED)
    entry = queue.enqueue(make_message("a"), NOW)
    with pytest.raises(NotImplementedError):
        forwarder.add(queue, entry, RemovalReason.EXPIRED, NOW, None)
    forwarder.flush(NOW)
    assert not forwarder.waiting


@pytest.mark.parametrize(
    ("settings", "command", "reason"),
    [
        ({"message_ttl": 5}, lambda queue, session: queue.tick(NOW + 5), RemovalReason.EXPIRED),
        ({"max_length": 0, "overflow": "ring"}, lambda queue, session: None, RemovalReason.OVERFLOW),
        ({}, lambda queue, session: session.reject_first(), RemovalReason.DEAD_LETTERED),
        ({"max_delivery_attempts": 1}, lambda queue, session: session.close(NOW), RemovalReason.DEAD_LETTERED),
    ],
)
def test_every_public_call_ends_with_what_it_dropped_on_its_way(settings, command, reason):
    class Session(RecordingSession):
        def reject_first(self):
            self.get(queue, NOW, auto_acknowledge=False)
            self.reject(self.last_tag, NOW, requeue=False)

    queue, forwarder = collecting(**settings)
    session = Session()
    if "max_delivery_attempts" in settings:
        session.consume(queue)
    send(queue, "a")
    command(queue, session)
    assert forwarder.sent == [("a", reason)]
    assert removed(queue, reason) == 1
    assert not forwarder.waiting


def test_the_record_is_settled_by_the_forwarder_and_not_before():
    effects = RecordingEffects()
    queue, forwarder = collecting(effects, message_ttl=5)
    message = make_message("a")
    message.record = 7
    queue.enqueue(message, NOW)
    forwarder.flush = lambda now: None
    queue.tick(NOW + 5)
    assert effects.settled == []
    del forwarder.flush
    forwarder.flush(NOW + 5)
    assert effects.settled == [("q", 7)]
