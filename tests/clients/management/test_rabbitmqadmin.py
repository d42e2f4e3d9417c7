"""``rabbitmqadmin`` of Debian's rabbitmq-server, unmodified."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from tests.broker_process import BrokerProcess

PLACES = [
    Path("/usr/bin/rabbitmqadmin"),
    *Path("/usr/lib/rabbitmq").glob("lib/*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin"),
]
PROGRAM = next((place for place in PLACES if place.exists()), None)
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no rabbitmqadmin (Debian: apt-get install rabbitmq-server)")


class Admin:
    def __init__(self, managed: BrokerProcess, user: str = "guest") -> None:
        self.command = [sys.executable, str(PROGRAM), "--host", "127.0.0.1", "--port", str(managed.http_port)]
        self.command += ["--username", user, "--password", user, "--format", "raw_json"]

    def run(self, *arguments: str) -> str:
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def listed(self, *arguments: str) -> list[dict[str, object]]:
        items: list[dict[str, object]] = json.loads(self.run(*arguments))
        return items

    def refused(self, *arguments: str) -> str:
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1, (arguments, done.stdout)
        return done.stdout + done.stderr


@pytest.fixture
def admin(managed: BrokerProcess) -> Admin:
    return Admin(managed)


def test_definitions_from_their_declaration_to_their_deletion(admin: Admin) -> None:
    admin.run("declare", "queue", "name=q/1", "durable=true", 'arguments={"x-max-length":10}')
    admin.run("declare", "exchange", "name=e", "type=topic", "auto_delete=false")
    admin.run("declare", "binding", "source=e", "destination=q/1", "routing_key=a.#")
    admin.run("declare", "policy", "name=p", "pattern=^q", 'definition={"message-ttl":60000}', "apply-to=queues")
    assert [(item["name"], item["policy"]) for item in admin.listed("list", "queues", "name", "policy")] == [
        ("q/1", "p")
    ]
    assert "e" in [item["name"] for item in admin.listed("list", "exchanges")]
    assert [item["routing_key"] for item in admin.listed("list", "bindings")] == ["q/1", "a.#"]
    assert [item["pattern"] for item in admin.listed("list", "policies")] == ["^q"]
    admin.run("delete", "binding", "source=e", "destination_type=queue", "destination=q/1", "properties_key=a.%23")
    admin.run("delete", "policy", "name=p")
    admin.run("delete", "exchange", "name=e")
    admin.run("delete", "queue", "name=q/1")
    assert admin.listed("list", "queues") == []


def test_messages_are_published_got_and_purged(admin: Admin) -> None:
    admin.run("declare", "queue", "name=m")
    assert "Message published" in admin.run("publish", "routing_key=m", "payload=hello")
    assert "NOT routed" in admin.run("publish", "routing_key=nowhere", "payload=hello")
    [message] = admin.listed("get", "queue=m", "count=5", "ackmode=ack_requeue_true")
    assert (message["payload"], message["message_count"]) == ("hello", 0)
    [message] = admin.listed("get", "queue=m", "ackmode=ack_requeue_false")
    assert message["redelivered"] is True
    admin.run("publish", "routing_key=m", "payload=x", 'properties={"delivery_mode":2,"headers":{"a":1}}')
    admin.run("purge", "queue", "name=m")
    assert admin.listed("get", "queue=m") == []
    admin.run("delete", "queue", "name=m")


def test_connections_are_listed_and_closed(admin: Admin, connected: pika.BlockingConnection) -> None:
    [connection] = admin.listed("list", "connections")
    assert connection["user"] == "guest"
    assert len(admin.listed("list", "channels")) == 1
    assert len(admin.listed("list", "consumers")) == 1
    admin.run("close", "connection", f"name={connection['name']}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="Closed via management plugin"):
        connected.process_data_events(5)


def test_overview_nodes_and_refusals(admin: Admin) -> None:
    assert json.loads(admin.run("show", "overview"))[0]["cluster_name"] == "annulet"
    assert len(admin.listed("list", "nodes")) == 1
    admin.run("declare", "queue", "name=r", "durable=true")
    assert "inequivalent arg 'durable'" in admin.refused("declare", "queue", "name=r", "durable=false")
    assert "give true or false" in admin.refused("declare", "queue", "name=s", "durable=maybe")
    admin.run("delete", "queue", "name=r")
