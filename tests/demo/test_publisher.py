from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pandas as pd
import pika
import pytest

from annulet.demo import flights
from annulet.demo.broker_process import BrokerProcess
from annulet.demo.ports import free_ports
from annulet.demo.publisher import Publisher, PublishError, PublishStopped, publish
from annulet.demo.reconciliation import accounts_of
from annulet.demo.topology import declare


@pytest.mark.parametrize("window", [1, 2, 7, 2000])
def test_everything_is_confirmed_whatever_the_window(
    empty_queues: BrokerProcess, year: pd.DataFrame, window: int
) -> None:
    confirmed: list[int] = []
    departures = list(flights.messages(year.head(50)))

    count = publish(
        empty_queues.address.parameters(), departures, stop=Event(), on_confirmed=confirmed.append, window=window
    )

    assert count == sum(confirmed) == 50
    assert accounts_of(empty_queues.get_json)["archive"].added == 50


def test_nothing_to_publish_ends_at_once(broker: BrokerProcess) -> None:
    assert publish(broker.address.parameters(), [], stop=Event(), on_confirmed=lambda more: None) == 0


def test_a_stop_ends_it(broker: BrokerProcess, frame: pd.DataFrame) -> None:
    stop = Event()

    def endless() -> Iterator[flights.Departure]:
        while True:
            yield from flights.messages(frame)

    with pytest.raises(PublishStopped, match="confirmed messages"):
        publish(broker.address.parameters(), endless(), stop=stop, on_confirmed=lambda more: stop.set(), window=50)


def test_a_message_without_queue_is_an_error(broker: BrokerProcess) -> None:
    departure = flights.Departure(0, "BOS", 0, {}, b"{}")
    connection = pika.BlockingConnection(broker.address.parameters())
    channel = connection.channel()
    for name in ("aircraft", "archive", "statistics"):
        channel.queue_unbind(name, "flights", "#")
    try:
        with pytest.raises(
            PublishError, match="message 0 was returned: NO_ROUTE; no queue is bound to 'flights' with key 'BOS'"
        ):
            publish(broker.address.parameters(), [departure], stop=Event(), on_confirmed=lambda more: None)
    finally:
        connection.close()
        declare(broker.address)


def test_no_broker_is_an_error() -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", free_ports(1)[0])

    with pytest.raises(PublishError, match="cannot connect to the broker"):
        publish(parameters, [], stop=Event(), on_confirmed=lambda more: None)


def test_a_refused_message_is_an_error(broker: BrokerProcess, frame: pd.DataFrame) -> None:
    def refuse(more: int) -> None:
        publisher._answered(pika.frame.Method(1, pika.spec.Basic.Nack(delivery_tag=3)))

    publisher = Publisher(broker.address.parameters(), flights.messages(frame), stop=Event(), on_confirmed=refuse)

    with pytest.raises(PublishError, match="refused message 3"):
        publisher.run()


def test_confirms_out_of_order_count_once() -> None:
    seen: list[int] = []
    publisher = Publisher(pika.ConnectionParameters(), [], stop=Event(), on_confirmed=seen.append)

    publisher.published = 9 + publisher._window  # so that no answer makes it send more
    for tag, multiple in [(2, False), (3, False), (1, False), (5, False), (4, True), (9, True)]:
        publisher._answered(pika.frame.Method(1, pika.spec.Basic.Ack(delivery_tag=tag, multiple=multiple)))

    assert publisher.confirmed == 9
    assert seen == [0, 0, 3, 0, 2, 4]
