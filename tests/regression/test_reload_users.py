"""SIGHUP reads the users of the configuration file: what it no longer names is put out, and nothing else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from annulet.broker.security.password_hashes import HASHER
from tests.broker_process import BrokerProcess

USER = """
[users.{name}]
password_hash = "{hash}"
tags = ["administrator"]
permissions = {{ "{host}" = {{ configure = ".*", write = ".*", read = ".*" }} }}
"""


class Place:
    """A broker process with a configuration file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "annulet.toml"
        self.hashes: dict[str, str] = {}
        self.write("ann", "bob")
        self.process = BrokerProcess(folder / "data", "--config", str(self.file))

    def write(self, *names: str, host: str = "/") -> None:
        for name in names:
            self.hashes.setdefault(name, HASHER.hash(name))
        self.file.write_text("".join(USER.format(name=name, hash=self.hashes[name], host=host) for name in names))

    def reload(self, said: str) -> None:
        assert self.process.log_file is not None
        before = self.process.log_file.read_text().count(said)
        os.kill(self.process.pid, signal.SIGHUP)
        deadline = time.monotonic() + 30
        while self.process.log_file.read_text().count(said) == before:
            assert time.monotonic() < deadline, f"{said!r} was not logged"
            time.sleep(0.01)

    def connect(self, name: str, host: str = "/") -> pika.BlockingConnection:
        credentials = pika.PlainCredentials(name, name)
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.process.amqp_port, host, credentials)
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    with place.process:
        yield place


def test_users_that_the_file_no_longer_names_are_put_out_at_once_and_for_good(place: Place) -> None:
    ann, bob = place.connect("ann"), place.connect("bob")
    place.write("bob")
    place.reload("SIGHUP: the configuration was read again")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="user 'ann' is deleted"):
        ann.process_data_events(30)
    bob.process_data_events(0.1)
    bob.close()
    place.process.wait_for_log("user revoked: the configuration file no longer names it")
    place.process.kill()
    place.process.start()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        place.connect("ann")
    place.connect("bob").close()


def test_new_users_and_their_virtual_hosts_are_there_at_once(place: Place) -> None:
    place.write("carl", host="shop")
    place.reload("SIGHUP: the configuration was read again")
    place.connect("carl", "shop").close()


def test_a_file_with_an_error_changes_nothing(place: Place) -> None:
    ann = place.connect("ann")
    place.file.write_text("[users.ann]\npassword_hash = 5\n")
    place.reload("SIGHUP: the file has an error, everything stays as it was")
    ann.process_data_events(0.1)
    ann.close()
    place.connect("bob").close()


def test_the_same_file_ends_nothing_not_even_a_transaction(place: Place) -> None:
    ann = place.connect("ann")
    channel = ann.channel()
    channel.queue_declare("q")
    channel.tx_select()
    channel.basic_publish("", "q", b"in a transaction")
    place.reload("SIGHUP: the configuration was read again")
    channel.tx_commit()
    assert channel.queue_declare("q", passive=True).method.message_count == 1
    ann.close()
