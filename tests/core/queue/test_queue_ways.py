"""One history, three ways through the engine: the short way, the long way and lanes must agree at every step.

Plain queues (FIFO, ring, key, time to live) take the short way of ``Queue``; the same queue without it takes the way of
``arrival``; with consumers whose selector matches everything it takes the way of lanes.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, make_message, pending, queue_of

EVERYTHING = "TRUE"

SETTINGS = (
    {},
    {"ring_size": 2},
    {"last_value_key": "k", "keep_per_key": 2, "tombstone_ttl": 3},
    {"ring_size": 3, "last_value_key": "k", "message_ttl": 5},
    {"ring_size": 1, "message_ttl": 0},
    {"max_ttl": 4, "min_ttl": 3, "redelivery_delay": 2},
    {"max_delivery_attempts": 2, "single_active_consumer": True},
    {"ring_size": 2, "live_consumers_max": 2, "redelivery_delay": 2},
)


class History:
    """Random commands from a seed; ``selector`` is what every consumer asks for, ``long_way`` forbids the short one."""

    def __init__(self, seed, settings, *, selector="", long_way=False):
        self.random = random.Random(seed)
        self.queue = queue_of(**settings)
        self.long_way = long_way
        self.selector = selector
        self.now = NOW
        self.names = 0
        self.sessions = [RecordingSession(name) for name in "123"]
        self.sessions[0].window.messages_max = 2

    def publish(self, _):
        self.names += 1
        choose = self.random.choice
        size = choose([0, 1, 3, 6])
        message = make_message(
            str(self.names).ljust(size, ".") if size else "",
            accepted_at=self.now - choose([0, 0, 1]),
            expires_at=choose([0, 0, self.now - 1, self.now, self.now + 4]),
            deliver_at=choose([0, 0, 0, self.now, self.now + 2]),
            k=choose(["a", "b", None]),
        )
        self.queue.enqueue(message, self.now)

    def attach(self, session):
        self.names += 1
        choose = self.random.choice
        session.consume(
            self.queue,
            f"c{self.names}",
            messages=choose([-1, 1, 2]),
            octets=choose([-1, -1, 4]),
            auto_acknowledge=choose([True, False, False, False]),
            priority=choose([0, 0, 1]),
            now=self.now,
            selector=self.selector,
        )

    def leave(self, session):
        if session.consumers:
            self.random.choice([session.detach, session.close_consumer])(min(session.consumers), self.now)

    def settle(self, session):
        if session.unacknowledged:
            tag = self.random.choice(sorted(session.unacknowledged))
            multiple = self.random.random() < 0.3
            command = self.random.randrange(4)
            if command < 2:
                session.acknowledge(tag, self.now, multiple=multiple)
            else:
                session.reject(tag, self.now, requeue=command == 2, multiple=multiple)

    def stall_or_go_on(self, session):
        session.writable = not session.writable
        session.wake(self.now)

    def pull(self, session):
        session.get(self.queue, self.now, auto_acknowledge=self.random.random() < 0.5)

    def wait(self, _):
        self.now += self.random.choice([1, 2])
        self.queue.tick(self.now)
        due_at = self.queue.next_due_at()
        assert due_at == 0 or due_at > self.now, "a tick leaves nothing due"

    def operate(self, _):
        queue, choose = self.queue, self.random.choice
        command = choose(["pause", "resume", "resume", "purge", "remove", "resize"])
        waiting = queue.order.entries()
        if command == "remove" and waiting:
            queue.remove(choose(waiting), RemovalReason.DELETED, self.now)
        elif command == "resize" and queue.settings.ring_size >= 0:
            queue.update(replace(queue.settings, ring_size=choose([1, 2, 5]), ring_trim_now=choose([True, False])), NOW)
        elif command in {"pause", "resume", "purge"}:
            getattr(queue, command)(self.now)

    def step(self):
        """Do one command and return everything that can be seen from outside."""
        if self.long_way:
            self.queue.simple = False
        commands = (self.publish, self.attach, self.settle, self.leave, self.pull, self.wait, self.stall_or_go_on)
        command = self.random.choices([*commands, self.operate], weights=[16, 4, 9, 3, 2, 3, 1, 1])[0]
        command(self.random.choice(self.sessions))
        queue = self.queue
        if queue.expire_due(self.now):  # else the ways differ in when they notice what nobody can see
            queue.wake(self.now)
        check_invariants(queue)
        received = [session.by_consumer for session in self.sessions]
        held = sorted(entry.sequence for entry in queue.delivering)
        live = [consumer.tag for consumer in queue.consumers.live]
        return f"{command.__name__}: {received} {pending(queue)} {held} {live} {queue.counters.as_dict()}"


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_short_way_the_long_way_and_lanes_agree(settings):
    for seed in range(10):
        short = History(seed, settings)
        long = History(seed, settings, long_way=True)
        lanes = History(seed, settings, selector=EVERYTHING)
        for _ in range(60):
            expected = short.step()
            assert long.step() == expected
            assert lanes.step() == expected
