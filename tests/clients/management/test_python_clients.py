"""Python's clients of the management API: pyrabbit2, pyrabbit (kombu's), rabbitman, amqpstorm's."""

from __future__ import annotations

import gc

import pika
import pytest
from kombu import Connection

from tests.broker_process import BrokerProcess


def test_pyrabbit2(managed: BrokerProcess, connected: pika.BlockingConnection) -> None:
    api = pytest.importorskip("pyrabbit2.api", reason="pyrabbit2 is not installed")
    client = api.Client(f"127.0.0.1:{managed.http_port}", "guest", "guest")
    assert client.is_alive("%2F")
    assert client.get_overview()["node"] == client.get_nodes()[0]["name"]
    client.create_queue("/", "q", durable=True)
    client.create_exchange("/", "e", "topic")
    client.create_binding("/", "e", "q", "a.#", {"x": 1})
    client.create_binding("/", "e", "q", "b")
    assert client.publish("/", "e", "a.b", "hello")
    assert client.get_queue_depth("/", "q") == 1
    assert [item["name"] for item in client.get_queues(vhost="/", pattern="^q$", regex=True)] == ["q"]
    assert [item["payload"] for item in client.get_messages("/", "q", count=1, requeue=True)] == ["hello"]
    assert len(client.get_queue_bindings("/", "q")) == 3
    client.delete_binding("/", "e", "q", "b")
    assert len(client.get_queue_bindings("/", "q")) == 2
    client.purge_queue("/", "q")
    client.create_policy("/", "p", pattern="^q", definition={"max-length": 5}, priority=1)
    assert client.get_policy("/", "p")["definition"] == {"max-length": 5}
    client.delete_policy("/", "p")
    [connection] = client.get_connections()
    assert client.get_connection(connection["name"])["user"] == "guest"
    [channel] = client.get_channels()
    assert client.get_channel(channel["name"])["consumer_count"] == 1
    assert client.get_cluster_name() == {"name": "annulet"}
    assert client.get_extensions() == []
    client.delete_connection(connection["name"])
    client.delete_queue("/", "q")
    client.delete_exchange("/", "e")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connected.process_data_events(5)


def test_kombus_manager(managed: BrokerProcess) -> None:
    pytest.importorskip("pyrabbit", reason="pyrabbit is not installed")
    with Connection(managed.amqp_url, transport_options={"manager_port": managed.http_port}) as connection:
        manager = connection.manager
        manager.create_queue("/", "k")
        assert "k" in [item["name"] for item in manager.get_queues("/")]
        assert manager.get_all_vhosts is not None
        manager.delete_queue("/", "k")
        assert "k" not in [item["name"] for item in manager.get_queues("/")]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # it closes no connection of its requests
def test_rabbitman(managed: BrokerProcess) -> None:
    rabbitman = pytest.importorskip("rabbitman", reason="rabbitman is not installed")
    client = rabbitman.Client(managed.http_url, "guest", "guest")
    for name in ("connections", "channels", "consumers", "exchanges", "queues", "bindings", "parameters", "policies"):
        assert isinstance(getattr(client, f"get_{name}")(), list), name
    assert client.get_overview()["cluster_name"] == client.get_cluster_name()["name"]
    client.create_queues_by_vhost_and_name("/", "q/x")
    client.create_exchanges_by_vhost_and_name("/", "x")
    assert client.get_queues_by_vhost_and_name("/", "q/x")["name"] == "q/x"
    assert client.get_aliveness_test_by_vhost("/") == {"status": "ok"}
    assert client.get_bindings_by_vhost_and_exchange_and_queue("/", "x", "q/x") == []
    client.delete_queues_contents_by_vhost_and_name("/", "q/x")
    client.delete_queues_by_vhost_and_name("/", "q/x")
    client.delete_exchanges_by_vhost_and_name("/", "x")
    del client
    gc.collect()  # while the warnings are expected


def test_amqpstorms_management_client(managed: BrokerProcess, connected: pika.BlockingConnection) -> None:
    management = pytest.importorskip("amqpstorm.management", reason="amqpstorm is not installed")
    with management.ManagementApi(managed.http_url, "guest", "guest") as api:
        assert api.aliveness_test() == {"status": "ok"}
        node = api.nodes()[0]["name"]
        assert api.node(node)["name"] == api.overview()["node"] == node
        assert api.healthchecks.get(node) == {"status": "ok"}
        api.queue.declare("q", durable=True)
        assert api.queue.declare("q", passive=True)["name"] == "q"
        with pytest.raises(management.ApiError):
            api.queue.declare("missing", passive=True)
        api.exchange.declare("e", "direct")
        api.queue.bind("q", "e", "k")
        assert len(api.queue.bindings("q")) == 2
        assert api.basic.publish("hello", "k", "e") == {"routed": True}
        [message] = api.basic.get("q", count=5, requeue=True)
        assert message.body == "hello"
        assert [item["name"] for item in api.queue.list(name="q", page_size=10)] == ["q"]
        api.queue.unbind("q", "e", "k")
        api.exchange.bind("e", "amq.direct", "z")
        api.exchange.unbind("e", "amq.direct", "z")
        api.queue.purge("q")
        [connection] = api.connection.list()
        [channel] = api.channel.list()
        assert api.channel.get(channel["name"])["connection_details"]["name"] == connection["name"]
        api.connection.close(connection["name"], "maintenance")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
            connected.process_data_events(5)
        api.queue.delete("q")
        api.exchange.delete("e")
