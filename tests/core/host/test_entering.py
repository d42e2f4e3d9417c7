"""A message on its way into its queues, in parts."""

from __future__ import annotations

import pytest

from annulet.core.host.entering import QUEUES_AT_ONCE_MAX, Entering
from annulet.core.host.send_plan import Claims
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingEffects, make_message


class Bench:
    """A virtual host with queues bound to a fanout exchange."""

    def __init__(self, count: int) -> None:
        self.effects = RecordingEffects()
        self.host = VirtualHost("/", self.effects)
        self.queues: list[Queue] = [
            self.host.declare_queue(f"q{number}", now=NOW, durable=True) for number in range(count)
        ]
        for queue in self.queues:
            self.host.bind_queue(queue, "amq.fanout", "")
        self.message = make_message("m", durable=True)

    def planned(self) -> Entering:
        entering = Entering(self.host.publisher)
        for leg in self.host.publisher.plan(
            self.message, self.host.route("amq.fanout", ""), Claims(), duplicate_id="d"
        ):
            entering.add_leg(leg, NOW)
        return entering

    def routed(self) -> Entering:
        entering = Entering(self.host.publisher)
        entering.add_queues(self.message, self.queues)
        return entering


@pytest.mark.parametrize("planned", [True, False])
def test_it_is_stored_when_it_is_in_all_its_queues(planned: bool) -> None:
    bench = Bench(5)
    entering = bench.planned() if planned else bench.routed()
    assert (entering.reached, entering.wide) == (5, False)
    assert [entering.go_on(2, NOW), entering.go_on(2, NOW)] == [2, 2]
    assert (bench.effects.stored, entering.done) == ([], False)
    assert (entering.go_on(2, NOW), entering.done) == (1, True)
    assert [len(entries) for _, entries in bench.effects.stored] == [5]
    assert entering.remembers is (planned and bool(bench.host.publisher.duplicates.has("amq.fanout", "d")))


def test_a_queue_that_is_deleted_meanwhile_gets_nothing() -> None:
    bench = Bench(3)
    entering = bench.routed()
    bench.host.delete_queue(bench.queues[1], NOW)
    assert entering.go_on(3, NOW) == 3
    assert [entry.queue for _, entries in bench.effects.stored for entry in entries] == [
        bench.queues[0],
        bench.queues[2],
    ]
    assert bench.routed().reached == 2


def test_it_is_wide_beyond_the_bound() -> None:
    bench = Bench(1)
    for count in (QUEUES_AT_ONCE_MAX, QUEUES_AT_ONCE_MAX + 1):
        entering = Entering(bench.host.publisher)
        entering.add_queues(bench.message, bench.queues * count)
        assert entering.wide is (count > QUEUES_AT_ONCE_MAX)


def test_what_is_given_up_enters_no_more_queues() -> None:
    bench = Bench(3)
    entering = bench.routed()
    entering.go_on(1, NOW)
    entering.give_up()
    assert (entering.done, entering.go_on(5, NOW), bench.effects.stored) == (True, 0, [])
