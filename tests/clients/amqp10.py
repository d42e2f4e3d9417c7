"""AMQP 1.0 clients of other languages as objects: connections, senders, receivers, transactions.

Each is driven over lines (:mod:`tests.clients.driven`); the same tests run with Qpid Proton and with rhea.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from tests.clients.driven import DriverProcess, message_from_line, message_to_line, to_line

HERE = Path(__file__).resolve().parent
NODE = HERE.parent / "node"
DEBIAN_PYTHON = "/usr/bin/python3"
NUMBERS = count(1)

Message = dict[str, Any]
"""A message: ``body`` and ``section`` (data, value, sequence), header, properties and annotations by their names."""


@cache
def proton_missing() -> str:
    """Return why Qpid Proton cannot be used, empty when it can."""
    if not Path(DEBIAN_PYTHON).exists():
        return f"there is no {DEBIAN_PYTHON}"
    found = subprocess.run([DEBIAN_PYTHON, "-c", "import proton"], capture_output=True, check=False)
    return "" if found.returncode == 0 else "python3-qpid-proton is not installed"


@cache
def rhea_missing() -> str:
    """Return why rhea cannot be used, empty when it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    return "" if (NODE / "node_modules" / "rhea").is_dir() else "npm ci was not run in tests/node"


def proton_process() -> DriverProcess:
    """Start a driver of Qpid Proton."""
    return DriverProcess([DEBIAN_PYTHON, str(HERE / "proton" / "driver.py")])


def rhea_process() -> DriverProcess:
    """Start a driver of rhea."""
    return DriverProcess(["node", str(NODE / "rhea_driver.mjs")], folder=NODE)


def data(body: bytes, **fields: Any) -> Message:
    """Return a message whose body is octets (§3.2.6)."""
    return {"body": body, "section": "data", **fields}


def value(body: Any, **fields: Any) -> Message:
    """Return a message whose body is one value (§3.2.8)."""
    return {"body": body, "section": "value", **fields}


def texts(messages: list[Message]) -> list[Any]:
    """Return the bodies."""
    return [message["body"] for message in messages]


class Client:
    """Opens connections with one driver; those that a test leaves open are closed by :meth:`close`."""

    def __init__(self, driver: DriverProcess, url: str) -> None:
        self.driver = driver
        self.url = url
        self._connections: list[Connection] = []

    def connect(self, url: str = "", **options: Any) -> Connection:
        """Open a connection. Options are Proton's: ``container_id``, ``user``, ``max_frame_size``, ``heartbeat`` ..."""
        name = f"c{next(NUMBERS)}"
        url = url or self.url
        if "user" in options:
            url = url.replace("guest:guest@", "")
        facts = self.driver.ask("connect", name=name, url=url, **options)
        connection = Connection(self.driver, name, facts)
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Close what is open."""
        for connection in self._connections:
            if not connection.closed:
                connection.close()
        self._connections.clear()


@dataclass
class Connection:
    """One connection; ``facts`` is what the peer said in its open."""

    driver: DriverProcess
    name: str
    facts: dict[str, Any]
    closed: bool = False

    def sender(self, address: str | None = None, **options: Any) -> Sender:
        """Attach a link to send on."""
        return Sender(self.driver, *self._attach("sender", address, options))

    def receiver(self, address: str | None = None, **options: Any) -> Receiver:
        """Attach a link to receive on. No credit goes out until something is received."""
        return Receiver(self.driver, *self._attach("receiver", address, options))

    def _attach(self, role: str, address: str | None, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        name = f"{self.name}-{role}-{next(NUMBERS)}"
        options = dict(options)
        for maps in ("properties", "node_properties"):
            if maps in options:
                options[maps] = {key: to_line(one) for key, one in options[maps].items()}
        return name, self.driver.ask(role, connection=self.name, name=name, address=address, **options)

    def transaction(self) -> Transaction:
        """Declare a transaction."""
        name = f"t{next(NUMBERS)}"
        answer = self.driver.ask("declare", connection=self.name, name=name)
        assert answer == "declared", answer
        return Transaction(self.driver, name)

    def wait_closed(self, seconds: float = 20) -> dict[str, str]:
        """Return condition and text with which the peer closes the connection or a session."""
        self.closed = True
        answer: dict[str, str] = self.driver.ask("wait_closed", name=self.name, seconds=seconds)
        return answer

    def wait_opens(self, number: int, seconds: float = 30) -> None:
        """Wait until the connection was opened so often, counting reconnects."""
        self.driver.ask("wait_opens", name=self.name, count=number, seconds=seconds)

    def close(self) -> None:
        """Close."""
        self.driver.ask("close", name=self.name)
        self.closed = True


@dataclass
class Link:
    """What senders and receivers share; ``facts`` is what the peer said in its attach."""

    driver: DriverProcess
    name: str
    facts: dict[str, Any]

    @property
    def address(self) -> str:
        """The address the peer gave, of a dynamic node its name."""
        return str(self.facts["address"])

    @property
    def credit(self) -> int:
        """Credit that is not used."""
        return int(self.driver.ask("credit", link=self.name))

    def wait_closed(self) -> dict[str, str]:
        """Return condition and text with which the peer detaches the link."""
        answer: dict[str, str] = self.driver.ask("wait_closed", name=self.name)
        return answer

    def detach(self, *, closed: bool = True) -> None:
        """Detach; closed ends what a durable subscription keeps (§2.6.4)."""
        self.driver.ask("detach", name=self.name, closed=closed)


class Sender(Link):
    """A link to send on."""

    def send(self, *messages: Message, **options: Any) -> list[dict[str, Any]]:
        """Send, and return the outcomes: ``outcome``, ``settled``, ``condition``, ``text``."""
        lines = [message_to_line(message) for message in messages]
        transaction = options.pop("transaction", None)
        if transaction is not None:
            options["transaction"] = transaction.name
        answer: list[dict[str, Any]] = self.driver.ask("send", link=self.name, messages=lines, **options)
        return answer

    def accepted(self, *messages: Message, **options: Any) -> None:
        """Send, and expect that each message is accepted."""
        outcomes = [outcome["outcome"] for outcome in self.send(*messages, **options)]
        assert outcomes == ["accepted"] * len(messages), outcomes

    def wait_credit(self, credit: int = 1, seconds: float = 20) -> int:
        """Wait until the peer granted so much and return what it did."""
        return int(self.driver.ask("wait_credit", link=self.name, credit=credit, seconds=seconds))


class Receiver(Link):
    """A link to receive on."""

    def receive(self, number: int = 1, **options: Any) -> list[Message]:
        """Return the next messages, unsettled."""
        lines = self.driver.ask("receive", link=self.name, count=number, **options)
        return [message_from_line(line) for line in lines]

    def take(self, number: int = 1) -> list[Message]:
        """Return the next messages, accepted."""
        messages = self.receive(number)
        self.settle(messages, "accepted")
        return messages

    def pending(self, quiet: float = 0.1) -> list[Message]:
        """Return what came without asking for more."""
        return [message_from_line(line) for line in self.driver.ask("pending", link=self.name, quiet=quiet)]

    def everything(self, credit: int = 1000) -> list[Message]:
        """Drain: all that is there now, unsettled."""
        self.drain(credit)
        return self.pending(0)

    def drain(self, credit: int) -> int:
        """Drain and return how many messages came."""
        return int(self.driver.ask("drain", link=self.name, credit=credit))

    def grant(self, credit: int) -> None:
        """Grant credit."""
        self.driver.ask("grant", link=self.name, credit=credit)

    def settle(self, messages: list[Message], outcome: str, **options: Any) -> None:
        """Give messages an outcome: accepted, rejected, released, modified."""
        transaction = options.pop("transaction", None)
        if transaction is not None:
            options["transaction"] = transaction.name
        if "annotations" in options:
            options["annotations"] = {key: to_line(one) for key, one in options["annotations"].items()}
        tags = [message["tag"] for message in messages if not message["settled"]]
        self.driver.ask("settle", link=self.name, tags=tags, outcome=outcome, **options)


@dataclass
class Transaction:
    """A declared transaction."""

    driver: DriverProcess
    name: str

    def commit(self) -> str:
        """Discharge and return ``committed`` or why not."""
        return str(self.driver.ask("discharge", name=self.name))

    def abort(self) -> str:
        """Discharge with fail."""
        return str(self.driver.ask("discharge", name=self.name, fail=True))
