"""Qpid Proton's protocol engine as the peer, in memory: what it reads and writes was not made by our codec."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from typing import Any

import pytest

from annulet.wire.amqp10.frames.performatives import Accepted, Error, Modified, Rejected, Released
from annulet.wire.amqp10.types.errors import LinkFault
from tests.wire.amqp10.recorder import Recorder, engine_with

DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"


@cache
def load_proton() -> Any:
    """Import Debian's Proton, whose extension fits this interpreter where the versions agree; ``None`` elsewhere."""
    sys.path.append(DEBIAN_PACKAGES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import proton  # type: ignore[import-not-found]
    except ImportError:
        return None
    finally:
        sys.path.remove(DEBIAN_PACKAGES)
    return proton


pytestmark = [
    pytest.mark.debian,
    pytest.mark.skipif(load_proton() is None, reason="python3-qpid-proton does not import in this interpreter"),
]


class Pair:
    """An engine of ours and a client of Proton, joined by memory, with an owner that keeps what comes."""

    def __init__(self, *, mechanisms: str = "ANONYMOUS", max_frame_size: int = 4096, **options: Any) -> None:
        self.proton = load_proton()
        self.handler = Recorder()
        self.engine = engine_with(self.handler, max_frame_size=max_frame_size, **options)
        self.handler.actions["sasl_init"] = lambda *_: self.engine.sasl_outcome(0)
        self.handler.actions["attach"] = self.accept
        self.connection = self.proton.Connection()
        self.connection.container = "proton"
        self.connection.hostname = "host"
        self.transport = self.proton.Transport()
        self.transport.max_frame_size = 600
        if mechanisms == "PLAIN":
            self.connection.user = "user"
            self.connection.password = "secret"
            self.transport.sasl().allow_insecure_mechs = True
        self.transport.sasl().allowed_mechs(mechanisms)
        self.transport.bind(self.connection)
        self.connection.open()
        self.session = self.connection.session()
        self.session.open()

    def accept(self, link: Any, _: Any) -> None:
        assert self.engine.endpoints.accept_attach(link, source=link.source, target=link.target)
        if link.incoming:
            self.engine.credit.grant_credit(link, 100)

    def run(self) -> None:
        """Carry octets until neither has any."""
        moved = True
        while moved:
            moved = False
            pending = self.transport.pending()
            if pending > 0:
                octets = self.transport.peek(pending)
                self.transport.pop(len(octets))
                self.engine.receive(octets)
                moved = True
            data = b"".join(self.engine.take_output())
            while data and self.transport.capacity() > 0:
                part = data[: self.transport.capacity()]
                self.transport.push(part)
                data = data[len(part) :]
                moved = True

    def sender(self, name: str = "in") -> Any:
        link = self.session.sender(name)
        link.target.address = "q"
        link.open()
        self.run()
        return link

    def receiver(self, credit: int, name: str = "out") -> Any:
        link = self.session.receiver(name)
        link.source.address = "q"
        link.open()
        link.flow(credit)
        self.run()
        return link

    def received(self, receiver: Any) -> list[tuple[bytes, Any]]:
        """Return payload and delivery of all complete messages; they stay unsettled."""
        found = []
        while (delivery := receiver.current) is not None and delivery.readable and not delivery.partial:
            found.append((receiver.recv(delivery.pending) or b"", delivery))
            receiver.advance()
        return found


def test_proton_logs_in_opens_and_closes() -> None:
    pair = Pair(mechanisms="PLAIN")
    pair.run()
    assert [arguments[:2] for arguments in pair.handler.named("sasl_init")] == [("PLAIN", b"\0user\0secret")]
    assert pair.engine.hostname == "host"
    assert pair.connection.remote_container == "annulet"
    assert pair.transport.authenticated
    pair.session.close()
    pair.connection.close()
    pair.run()
    assert pair.engine.closed
    assert pair.transport.condition is None
    assert pair.connection.state & pair.proton.Endpoint.REMOTE_CLOSED


def test_proton_is_told_that_its_login_failed() -> None:
    pair = Pair(mechanisms="PLAIN")
    pair.handler.actions["sasl_init"] = lambda *_: pair.engine.sasl_outcome(1)
    pair.run()
    assert pair.engine.closed
    assert pair.transport.sasl().outcome == pair.proton.SASL.AUTH


@pytest.mark.parametrize("sizes", [[0, 1, 50], [599, 600, 601, 5000, 100_000]])
def test_messages_of_proton_arrive_whole_and_are_settled_in_one_disposition(sizes: list[int]) -> None:
    pair = Pair()
    sender = pair.sender()
    assert sender.credit == 100
    deliveries = []
    for number, size in enumerate(sizes):
        deliveries.append(sender.delivery(f"tag{number}"))
        sender.send(bytes((number,)) * size)
        sender.advance()
    pair.run()
    came = pair.handler.deliveries()
    assert [delivery.payload for delivery in came] == [bytes((number,)) * size for number, size in enumerate(sizes)]
    assert [delivery.delivery_tag for delivery in came] == [f"tag{number}".encode() for number in range(len(sizes))]
    pair.engine.transfers.settle_incoming(came[0].link.session, 0, len(sizes) - 1, Accepted())
    pair.run()
    assert all(delivery.settled and delivery.remote_state == pair.proton.Delivery.ACCEPTED for delivery in deliveries)


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (Accepted(), "ACCEPTED"),
        (Released(), "RELEASED"),
        (Rejected(Error("amqp:not-allowed", "because")), "REJECTED"),
        (Modified(True, True, {"x": "y"}), "MODIFIED"),
    ],
)
def test_proton_reads_our_outcomes(state: Any, name: str) -> None:
    pair = Pair()
    sender = pair.sender()
    delivery = sender.delivery("t")
    sender.send(b"m")
    sender.advance()
    pair.run()
    pair.engine.transfers.settle_incoming(pair.handler.links["in"].session, 0, 0, state)
    pair.run()
    assert delivery.remote_state == getattr(pair.proton.Delivery, name)
    if name == "REJECTED":
        assert (delivery.remote.condition.name, delivery.remote.condition.description) == (
            "amqp:not-allowed",
            "because",
        )
    if name == "MODIFIED":
        assert (delivery.remote.failed, delivery.remote.undeliverable) == (True, True)
        assert delivery.remote.annotations == {"x": "y"}


@pytest.mark.parametrize("settled", [False, True])
def test_our_messages_reach_proton_whole_and_its_outcomes_reach_us(settled: bool) -> None:
    pair = Pair()
    receiver = pair.receiver(10)
    link = pair.handler.links["out"]
    assert link.credit == 10
    payloads = [bytes((number,)) * size for number, size in enumerate([1, 560, 590, 600, 20_000])]
    for number, payload in enumerate(payloads):
        pair.engine.transfers.send_transfer(link, b"tag%d" % number, payload, settled=settled)
    pair.run()
    found = pair.received(receiver)
    assert [payload for payload, _ in found] == payloads
    assert [delivery.tag for _, delivery in found] == [f"tag{number}" for number in range(5)]
    assert all(delivery.settled is settled for _, delivery in found)
    if settled:
        return
    for _, delivery in found[:3]:
        delivery.update(pair.proton.Delivery.ACCEPTED)
        delivery.settle()
    found[3][1].local.failed = True
    found[3][1].update(pair.proton.Delivery.MODIFIED)
    found[4][1].update(pair.proton.Delivery.RELEASED)
    pair.run()
    told = {}
    for _, first, last, state, done in pair.handler.named("disposition"):
        told.update(dict.fromkeys(range(first, last + 1), (state, done)))
    assert told == {
        0: (Accepted(), True), 1: (Accepted(), True), 2: (Accepted(), True),
        3: (Modified(True), False), 4: (Released(), False),
    }  # fmt: skip
    pair.engine.transfers.settle_outgoing(link.session, 3, 4, Released())
    pair.run()
    assert found[3][1].settled
    assert found[4][1].settled
    assert link.session.outgoing_unsettled == {}


def test_protons_window_holds_our_transfers_back_until_it_reads() -> None:
    pair = Pair()
    pair.session.incoming_capacity = 3 * 600
    receiver = pair.receiver(50)
    link = pair.handler.links["out"]
    payloads = [bytes((number,)) * 1500 for number in range(10)]
    for number, payload in enumerate(payloads):
        pair.engine.transfers.send_transfer(link, b"%d" % number, payload, settled=True)
    pair.run()
    assert not link.session.writable
    came: list[bytes] = []
    for _ in range(100):
        pair.run()
        while (delivery := receiver.current) is not None and delivery.pending:
            part = receiver.recv(delivery.pending)
            came.append(part)
            if delivery.partial:
                break
            receiver.advance()
    pair.run()
    assert b"".join(came) == b"".join(payloads)
    assert pair.transport.condition is None
    assert link.session.writable
    assert pair.handler.order().count("session_writable") == 1


def test_a_drain_of_proton_ends() -> None:
    pair = Pair()
    receiver = pair.receiver(5)
    link = pair.handler.links["out"]
    pair.handler.actions["credit_changed"] = pair.engine.credit.drained
    pair.engine.transfers.send_transfer(link, b"t", b"m", settled=True)
    receiver.drain(0)
    pair.run()
    assert len(pair.received(receiver)) == 1
    assert receiver.credit == 0
    assert not receiver.draining()
    receiver.drain_mode = False
    receiver.flow(3)
    pair.run()
    assert link.credit == 3


def test_a_delivery_that_proton_aborts_is_never_seen() -> None:
    pair = Pair()
    sender = pair.sender()
    for index in range(3):
        delivery = sender.delivery(f"t{index}")
        sender.send(b"x" * 3000)
        pair.run()
        if index == 1:
            delivery.abort()
        else:
            sender.advance()
        pair.run()
    assert [delivery.delivery_tag for delivery in pair.handler.deliveries()] == [b"t0", b"t2"]
    assert pair.engine.transfers.assembling_bytes == 0
    assert pair.transport.condition is None


def test_proton_settles_second_where_that_was_agreed() -> None:
    pair = Pair()
    link = pair.session.sender("in")
    link.rcv_settle_mode = pair.proton.Link.RCV_SECOND
    link.open()
    pair.run()
    delivery = link.delivery("t")
    link.send(b"m")
    link.advance()
    pair.run()
    session = pair.handler.links["in"].session
    pair.engine.transfers.settle_incoming(session, 0, 0, Accepted())
    pair.run()
    assert delivery.remote_state == pair.proton.Delivery.ACCEPTED
    assert not delivery.settled
    delivery.settle()
    pair.run()
    assert session.incoming_unsettled == {}


def test_proton_reads_our_refusals_and_errors() -> None:
    pair = Pair()
    pair.handler.failures["attach"] = LinkFault("amqp:not-found", "no queue q")
    refused = pair.sender("refused")
    assert refused.remote_condition.name == "amqp:not-found"
    assert refused.remote_condition.description == "no queue q"
    assert refused.remote_target.type == pair.proton.Terminus.UNSPECIFIED
    refused.close()
    del pair.handler.failures["attach"]
    sender = pair.sender("accepted")
    pair.engine.endpoints.detach(
        pair.handler.links["accepted"], closed=True, condition="amqp:resource-deleted", description="gone"
    )
    pair.run()
    assert sender.remote_condition.name == "amqp:resource-deleted"
    pair.engine.endpoints.end_session(pair.handler.sessions[0], "amqp:internal-error", "x")
    pair.run()
    assert pair.session.remote_condition.name == "amqp:internal-error"
    pair.engine.close("amqp:connection:forced", "going down")
    pair.run()
    assert pair.connection.remote_condition.name == "amqp:connection:forced"
    pair.connection.close()
    pair.run()
    assert pair.engine.closed


def test_protons_idle_time_out_is_kept_by_heartbeats() -> None:
    pair = Pair(idle_time_out=30_000)
    pair.transport.idle_timeout = 10
    pair.run()
    assert pair.engine.remote_idle_time_out in {5_000, 10_000}
    assert pair.transport.remote_idle_timeout == 30
    pair.transport.tick(1)
    pair.engine.received_since_check = False
    for second in range(2, 60, 4):
        pair.engine.heartbeat()
        pair.run()
        pair.transport.tick(second)
        assert pair.transport.condition is None
    pair.run()
    assert pair.engine.received_since_check  # Proton answers for its half
