"""What AMQP 1.0 clients are refused, and in which words: logins, addresses, sizes, deleted queues; Proton and rhea."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from annulet.broker.security.password_hashes import HASHER
from tests.broker_process import BrokerProcess
from tests.clients.amqp10 import Client, data, texts
from tests.clients.driven import Refused
from tests.clients.support import Peer, Scene

pytestmark = pytest.mark.usefixtures("ours")

STRICT = """
[[address_settings]]
match = "#"
auto_create_queues = false
auto_create_addresses = false

[limits]
max_message_bytes = 65536

[users.guest]
password_hash = "{guest}"
tags = ["administrator"]
permissions = {{ "/" = {{ configure = ".*", write = ".*", read = ".*" }} }}

[users.reader]
password_hash = "{reader}"
permissions = {{ "/" = {{ configure = "", write = "", read = "^readable$" }} }}
"""
MOST_BYTES = 65_536


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A broker that creates nothing by itself and takes small messages only."""
    configuration = tmp_path_factory.mktemp("strict") / "annulet.toml"
    configuration.write_text(STRICT.format(guest=HASHER.hash("guest"), reader=HASHER.hash("reader")))
    with BrokerProcess(None, "--config", str(configuration), log_file=configuration.with_suffix(".log")) as process:
        yield Peer(process.amqp_url, ours=True)


def refused(client: Client, **options: object) -> Refused:
    """Expect that a connection is refused."""
    with pytest.raises(Refused) as caught:
        client.connect(**options)  # type: ignore[arg-type]
    return caught.value


def test_a_wrong_password(client: Client) -> None:
    assert refused(client, user="guest", password="wrong").condition == "amqp:unauthorized-access"


def test_an_unknown_user(client: Client) -> None:
    assert refused(client, user="nobody", password="guest").condition == "amqp:unauthorized-access"


def test_anonymous_from_loopback_is_guest(proton: Client, scene: Scene) -> None:
    connection = proton.connect(url=proton.url.replace("guest:guest@", ""), allowed_mechs="ANONYMOUS")
    connection.sender(scene.name()).accepted(data(b"x"))


def test_without_sasl_the_guest_of_the_loopback_comes_in(proton: Client, scene: Scene) -> None:
    connection = proton.connect(url=proton.url.replace("guest:guest@", ""), sasl_enabled=False)
    connection.sender(scene.name()).accepted(data(b"x"))


def test_a_host_that_is_no_virtual_host_means_the_default_one(client: Client, scene: Scene) -> None:
    queue = scene.name()
    client.connect(virtual_host="broker.example").sender(queue).accepted(data(b"x"))
    assert texts(client.connect().receiver(queue).take()) == [b"x"]


def test_a_virtual_host_that_is_named_has_to_exist(client: Client) -> None:
    error = refused(client, virtual_host="vhost:unheard-of")
    assert error.condition == "amqp:not-found"
    assert "unheard-of" in error.text


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_missing_address_is_not_found_where_nothing_is_created(client: Client, strict: Peer, role: str) -> None:
    connection = client.connect(url=strict.url)
    with pytest.raises(Refused) as caught:
        getattr(connection, role)("nowhere-to-be-found")
    assert caught.value.condition == "amqp:not-found"
    assert "nowhere-to-be-found" in caught.value.text
    connection.receiver(dynamic=True)  # the connection and its session go on


@pytest.mark.parametrize("address", ["/exchanges/unheard-of/key", "unheard-of::queue"])
def test_a_missing_node_is_not_found(client: Client, address: str) -> None:
    with pytest.raises(Refused) as caught:
        client.connect().sender(address)
    assert caught.value.condition == "amqp:not-found"


@pytest.mark.parametrize(
    ("role", "address", "missing"),
    [("sender", "readable", "write"), ("receiver", "unreadable", "read"), ("receiver", "", "configure")],
)
def test_what_a_user_may_not_do_is_refused_to_its_link(
    client: Client, strict: Peer, role: str, address: str, missing: str
) -> None:
    with Scene(strict).connect() as owner:
        for name in ("readable", "unreadable"):
            owner.channel().queue_declare(name)
        owner.channel().basic_publish("", "readable", b"x")
        connection = client.connect(url=strict.url, user="reader", password="reader")
        with pytest.raises(Refused) as caught:
            getattr(connection, role)(address, **({} if address else {"dynamic": True}))
        assert caught.value.condition == "amqp:unauthorized-access"
        assert f"{missing} access to" in caught.value.text
        assert "'reader'" in caught.value.text
        assert texts(connection.receiver("readable").take()) == [b"x"]  # the connection and its session go on


def test_a_topic_cannot_be_had_of_an_address_that_is_declared_as_anycast(client: Client, scene: Scene) -> None:
    address = scene.name("work")
    scene.channel().exchange_declare(address, "address", arguments={"x-routing-types": "anycast"})
    with pytest.raises(Refused) as caught:
        client.connect().receiver(address, capabilities=["topic"])
    assert caught.value.condition.startswith("amqp:")
    assert address in caught.value.text


def test_a_message_that_is_too_big_ends_its_link_only(client: Client, strict: Peer) -> None:
    connection = client.connect(url=strict.url)
    receiver = connection.receiver(dynamic=True)
    sender = connection.sender(receiver.address)
    assert 0 < sender.facts["max_message_size"] <= MOST_BYTES + 4096
    with pytest.raises(Refused) as caught:
        sender.send(data(b"x" * (sender.facts["max_message_size"] + 1)))
    assert caught.value.condition == "amqp:link:message-size-exceeded"
    connection.sender(receiver.address).accepted(data(b"fits"))
    assert texts(receiver.take()) == [b"fits"]


def test_deleting_a_queue_detaches_its_receivers(client: Client, scene: Scene) -> None:
    channel = scene.channel()
    connection, queue = client.connect(), scene.queue(channel)
    receiver = connection.receiver(queue)
    receiver.grant(1)
    channel.queue_delete(queue)
    error = receiver.wait_closed()
    assert error["condition"] == "amqp:resource-deleted"
    assert queue in error["text"]
    connection.sender(scene.name()).accepted(data(b"x"))


def test_an_exclusive_queue_of_another_connection_is_locked(client: Client, scene: Scene) -> None:
    queue = scene.queue(scene.channel(), exclusive=True)
    with pytest.raises(Refused) as caught:
        client.connect().receiver(queue)
    assert caught.value.condition == "amqp:resource-locked"
    scene.close_connections()


def test_a_foreign_user_id_is_rejected(client: Client, scene: Scene) -> None:
    sender = client.connect().sender(scene.name())
    (outcome,) = sender.send(data(b"x", user_id=b"somebody else"))
    assert (outcome["outcome"], outcome["condition"]) == ("rejected", "amqp:unauthorized-access")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(rhea: Client, scene: Scene, mechanism: str) -> None:
    rhea.connect()  # a user whose password was only ever hashed has verifiers from the first login that sent it
    rhea.connect(scram=mechanism).sender(scene.name()).accepted(data(b"x"))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_with_a_wrong_password(rhea: Client, mechanism: str) -> None:
    rhea.connect()
    error = refused(rhea, scram=mechanism, user="guest", password="wrong")
    assert error.condition == "amqp:unauthorized-access"
