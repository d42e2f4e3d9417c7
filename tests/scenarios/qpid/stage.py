"""The stage of the Broker-J scenarios: the Artemis one, with queues declared by Broker-J's own argument names."""

from __future__ import annotations

from typing import Any

from annulet.core.base.settings import QueueSettings
from annulet.core.management import Operation
from annulet.core.message.message import PropertyValue
from annulet.core.queue.queue import Queue
from tests.scenarios.artemis.scene import SECOND, Client, Scene, headers_of, numbers

__all__ = ["SECOND", "Client", "Stage", "bodies_of", "headers_of", "numbers", "run"]


class Stage(Scene):
    """One virtual host; arguments are written as a Broker-J client writes them."""

    def declare(self, name: str = "q", arguments: dict[str, PropertyValue] | None = None, **options: Any) -> Queue:
        """Declare a queue with arguments by their full names."""
        return self.host.declare_queue(name, now=self.now, arguments=arguments, **options)

    def change(self, queue: Queue, settings: QueueSettings) -> None:
        """Give a queue other settings, as an operator does."""
        self.host.update_queue(queue, settings, self.now)

    def send_sized(self, *sizes: int, to: str = "q") -> None:
        """Send messages of these body sizes."""
        for size in sizes:
            self.send("x" * size, to=to)

    def send_priorities(self, *priorities: int | None, to: str = "q") -> None:
        """Send messages of these priorities; their bodies are their numbers from 1."""
        for number, priority in enumerate(priorities, 1):
            self.send(str(number), to=to, priority=priority)

    def take_all(self, queue: Queue) -> list[str]:
        """Take and acknowledge everything that is pending; return the bodies in order of dispatch."""
        client = Client(self)
        taken = []
        while (body := client.pull(queue)) is not None:
            taken.append(body)
        return taken


def bodies_of(queue: Queue) -> list[str]:
    """Bodies of everything in the queue, in delivery too, by arrival."""
    return [entry.message.body.decode() for entry in queue.browse()]


def run(operation: Operation, now: int) -> Operation:
    """Step a management operation to its end."""
    while not operation.step(now):
        pass
    return operation
