"""The rows of a batch enter their queues, so many queues a turn, and their dead letters follow."""

from __future__ import annotations

from annulet.bulk.writing.encoding import Destination, PendingMessage
from annulet.bulk.writing.row_filling import RowFilling
from annulet.core.host.dead_letters import FORWARDED_PER_SLICE
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import Message, Origin
from annulet.core.policies.staged_batches import HiddenBatch
from annulet.core.queue.queue import Queue
from annulet.core.routing.routes import Route
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.core.helpers import NOW, pending
from tests.core.host.test_dead_letter_slices import Transacting


class Bench:
    """A virtual host, and rows for an exchange with many queues."""

    def __init__(self, queues: int, **arguments: int | str) -> None:
        self.effects = Transacting()
        self.host = VirtualHost("/", self.effects)
        self.host.declare_exchange("dlx", "fanout")
        given = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.queues: list[Queue] = [
            self.host.declare_queue(f"q{number}", now=NOW, durable=True, arguments=dict(given))
            for number in range(queues)
        ]
        for queue in self.queues:
            self.host.bind_queue(queue, "amq.fanout", "")
        self.batch = HiddenBatch()

    def filling(self, rows: int, exchange: str = "amq.fanout") -> RowFilling:
        route = self.host.route(exchange, "")
        origin = Origin(exchange, "", "guest@test", VIEW)
        header = encode_properties(BasicProperties())
        messages: list[tuple[PendingMessage, Route]] = []
        for number in range(rows):
            message = Message(header, str(number).encode(), origin, durable=True, accepted_at=NOW)
            messages.append((PendingMessage(Destination(None, exchange, ""), message, -1), route))
        self.effects.begin_transaction()
        return RowFilling(self.host, messages, {route: self.host.renewed(route)}, self.batch)

    def entered(self, queues: list[Queue]) -> int:
        return sum(queue.counters.messages_added for queue in queues)


def test_a_row_to_very_many_queues_enters_them_in_several_turns() -> None:
    """A8: a thousand rows of a turn, each to 15,000 queues, are 15 million arrivals."""
    bench = Bench(30)
    filling = bench.filling(3)
    before = 0
    while filling.go_on(20, NOW):
        assert bench.entered(bench.queues) - before <= 20
        before = bench.entered(bench.queues)
        assert all(queue.shown_count() == 0 for queue in bench.queues)
        assert bench.effects.bracketed()
    bench.effects.end_transaction()
    filling.end(NOW)
    bench.batch.show(NOW)
    assert (filling.lost, before) == (0, 80)
    assert all(pending(queue) == ["0", "1", "2"] for queue in bench.queues)
    assert [len(entries) for _, entries in bench.effects.stored] == [30, 30, 30]


def test_dead_letters_of_rows_follow_in_the_same_transaction() -> None:
    bench = Bench(3, max_length=0, dead_letter_exchange="dlx")
    dead = [bench.host.declare_queue(f"dead{number}", now=NOW, durable=True) for number in range(FORWARDED_PER_SLICE)]
    for queue in dead:
        bench.host.bind_queue(queue, "dlx", "")
    filling = bench.filling(2)
    before = 0
    while filling.go_on(1000, NOW):
        assert bench.entered(dead) - before <= FORWARDED_PER_SLICE
        before = bench.entered(dead)
    assert bench.effects.bracketed()
    bench.effects.end_transaction()
    filling.end(NOW)
    bench.batch.show(NOW)
    assert pending(dead[0]) == ["0", "0", "0", "1", "1", "1"]
    assert not bench.host.dead_letters.waiting


def test_a_row_whose_exchange_or_queues_have_gone_is_lost() -> None:
    bench = Bench(1)
    filling = bench.filling(2)
    bench.host.delete_queue(bench.queues[0], NOW)
    assert not filling.go_on(1000, NOW)
    assert filling.lost == 2


def test_what_is_given_up_half_way_leaves_nothing_open() -> None:
    bench = Bench(30)
    filling = bench.filling(1)
    assert filling.go_on(20, NOW)
    bench.effects.abort_transaction()
    filling.end(NOW)
    assert bench.host.dead_letters.records_of(bench.queues[0]) == []
    assert bench.effects.stored == []
