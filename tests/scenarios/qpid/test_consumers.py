"""Rows 43, 74 and 79 to 82 of the Broker-J scenarios: who gets what, and who reads without taking."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments import parse_consumer_arguments
from tests.scenarios.qpid.stage import Client, Stage, numbers


@pytest.fixture
def stage():
    return Stage()


def test_row_043_every_consumer_of_a_nondestructive_queue_reads_everything_once(stage):
    queue = stage.declare(arguments={"qpid.ensure_nondestructive_consumers": True})
    first, second = Client(stage), Client(stage)
    stage.send(*numbers(0, 5))
    first.listen(queue)
    assert first.received == numbers(0, 5)
    first.settle_all()
    second.listen(queue)
    assert second.received == numbers(0, 5)
    stage.send("5")
    assert first.received == second.received == numbers(0, 6)
    assert stage.figures("message_count messages_acknowledged") == (6, 0)


def test_row_074_an_undeliverable_message_goes_to_somebody_else(stage):
    """AMQP 1.0 ``modified(undeliverable-here)``, at core level."""
    queue, client, other = stage.declare(), Client(stage), Client(stage)
    consumer = client.listen(queue, messages=1)
    stage.send("1", "2")
    queue.return_entries(client.take(1, multiple=False), stage.now, exclude=consumer)
    assert client.received == ["1", "2"]
    client.leave()
    other.listen(queue)
    assert other.received == ["1", "2"]


def test_row_079_one_live_consumer_until_it_goes(stage):
    queue = stage.declare(arguments={"maximumLiveConsumers": 1})
    clients = [Client(stage, str(number)) for number in range(1, 5)]
    for client in clients[:2]:
        client.listen(queue)
    stage.send("0", "1", "2")
    clients[0].settle_all()
    assert [client.received for client in clients[:2]] == [["0", "1", "2"], []]
    clients[0].leave()
    stage.send("3", "4")
    assert clients[1].received == ["3", "4"]
    for client in clients[2:]:
        client.listen(queue)
    clients[2].leave()
    stage.send("5")
    assert clients[1].received == ["3", "4", "5"]
    clients[1].settle_all()
    clients[1].leave()
    stage.send("6")
    assert (clients[2].received, clients[3].received) == ([], ["6"])


@pytest.mark.parametrize(
    ("selector", "to_usual", "to_low"),
    [
        pytest.param("", ["0", "1"], ["2"], id="080-credit"),
        pytest.param("x = 1", [], ["0", "1", "2"], id="080-selector"),
    ],
)
def test_a_lower_priority_gets_what_the_higher_cannot_take(stage, selector, to_usual, to_low):
    """Broker-J's default is the highest priority, ours is 0: the lower one has to say so."""
    queue, low, usual = stage.declare(), Client(stage), Client(stage)
    low.listen(queue, priority=parse_consumer_arguments({"x-priority": -1}).priority)
    usual.listen(queue, messages=2, selector=selector)
    stage.send("0", "1", "2")
    assert (usual.received, low.received) == (to_usual, to_low)


def test_row_081_a_replay_period_of_nothing_starts_with_what_comes_next(stage):
    """Each consumer asks for it; default filters of a queue are refused with that advice."""
    queue, client = stage.declare(), Client(stage)
    stage.send("A")
    settings = parse_consumer_arguments({"x-qpid-replay-period": 0})
    client.listen(queue, replay_period=settings.replay_period)
    stage.send("B")
    assert client.received == ["B"]
    with pytest.raises(InvalidArgument, match="each consumer its own"):
        stage.declare("filtered", {"defaultFilters": '{"x-qpid-replay-period": {"x-qpid-replay-period": ["0"]}}'})


def test_row_082_a_consumer_gets_what_its_selector_admits_and_the_rest_stays(stage):
    """In the place of a default filter: the consumer's own selector leaves the others where they are."""
    queue, client = stage.declare(), Client(stage)
    for number in (1, 2):
        stage.send(str(number), id=number)
    settings = parse_consumer_arguments({"x-filter-jms-selector": "id = 2"})
    client.listen(queue, selector=settings.selector)
    assert client.received == ["2"]
    assert stage.figures("message_count") == (2,)
    client.settle_all()
    assert stage.figures("message_count") == (1,)
    with pytest.raises(InvalidArgument, match="x-selector"):
        stage.declare("filtered", {"qpid.default_filters": '{"s": {"x-filter-jms-selector": ["id=2"]}}'})
