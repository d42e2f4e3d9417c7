"""Mutations of valid histories against the whole engine: no exception, every callback once, nothing kept."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.wire.amqp10.frames.frames import AMQP_HEADER, HEARTBEAT_FRAME, SASL_HEADER
from annulet.wire.amqp10.frames.performatives import Accepted, Close, Detach, Disposition, End, Flow, Released
from annulet.wire.amqp10.frames.sasl import SaslInit, SaslResponse
from tests.wire.amqp10.recorder import (
    Recorder,
    attach_receiver,
    attach_sender,
    begin,
    credit,
    engine_with,
    frame,
    frames,
    login,
    open_frame,
    sasl_frame,
    transfer,
)
from tests.wire.fuzzing import SOAK_INPUTS, TEST_INPUTS, fuzz

LINKS = begin() + attach_sender() + attach_receiver()
START = AMQP_HEADER + open_frame(max_frame_size=1024)
CORPUS = [
    login() + open_frame() + begin(),
    SASL_HEADER + sasl_frame(SaslInit("PLAIN", b"\0a\0b", "h")) + sasl_frame(SaslResponse(b"r")) + AMQP_HEADER,
    START + LINKS + transfer(0) + transfer(1, b"a", more=True) + transfer(None, b"b") + frame(Close()),
    START + LINKS + credit(5) + frame(Disposition(True, 0, 3, True, Accepted())) + frame(Flow(4, 9, 0, 9, echo=True)),
    START + LINKS + credit(9, drain=True, echo=True) + frame(Disposition(True, 0, 8, False, Released())) + frame(End()),
    START
    + LINKS
    + transfer(0, aborted=True)
    + frame(Detach(0))
    + attach_sender("in", 0)
    + frame(Detach(1, closed=True)),
    START + begin(3) + attach_sender("in", 7, 3) + begin(4) + attach_sender("in", 7, 4) + HEARTBEAT_FRAME * 2,
    START + LINKS + transfer(0, bytes(600)) + frame(Disposition(False, 0, None, True)) + frame(End()) + LINKS,
]


class Owner(Recorder):
    """Accepts, grants, settles and sends: as busy as a broker."""

    def __init__(self) -> None:
        super().__init__()
        self.anonymous = True
        self.actions = {
            "sasl_init": self.answer_login,
            "sasl_response": lambda _: self.busy.sasl_outcome(0),
            "attach": self.accept,
            "credit_changed": self.send,
            "delivery": self.settle,
            "disposition": self.settle_own,
        }

    @property
    def busy(self) -> Any:
        return self.engine

    def answer_login(self, mechanism: str, response: bytes, _: str) -> None:
        if mechanism == "PLAIN" and response:
            self.busy.sasl_challenge(b"more")
        else:
            self.busy.sasl_outcome(0)

    def accept(self, link: Any, _: Any) -> None:
        if link.name == "in" and link.properties:
            self.busy.endpoints.refuse_attach(link, "amqp:not-found", "no")
        elif self.busy.endpoints.accept_attach(link, source=link.source, target=link.target) and link.incoming:
            self.busy.credit.grant_credit(link, 5)

    def send(self, link: Any) -> None:
        while link.credit > 0 and link.session.writable and link.delivery_count < 20 + link.initial_delivery_count:
            self.busy.transfers.send_transfer(link, b"t", bytes(link.credit % 2000), settled=link.snd_settle_mode == 1)
        self.busy.credit.drained(link)

    def settle(self, link: Any, delivery: Any) -> None:
        self.busy.transfers.settle_incoming(link.session, delivery.delivery_id, delivery.delivery_id, Accepted())

    def settle_own(self, session: Any, first: int, last: int, state: Any, settled: bool) -> None:
        if not settled:
            self.busy.transfers.settle_outgoing(session, first, last, state)


def target(data: bytes) -> None:
    for size in (len(data) or 1, 13):
        owner = Owner()
        engine = engine_with(owner, max_frame_size=2048, max_unsettled=50, incoming_window=20, max_message_size=1000)
        for start in range(0, len(data), size):
            engine.receive(data[start : start + size])
            frames(engine)  # all that is written can be read
        calls = owner.order()
        assert calls.count("connection_closed") <= 1
        engine.connection_lost()
        calls = owner.order()
        if "connection_closed" in calls:
            assert calls.index("connection_closed") == len(calls) - 1
        assert calls.count("connection_closed") == 1
        assert calls.count("session_began") == calls.count("session_ended")
        accepted = [arguments[0] for arguments in owner.named("attach") if arguments[0].handle >= 0]
        gone = [arguments[0] for arguments in owner.named("detached")]
        assert len({id(link) for link in gone}) == len(gone) <= len(accepted)
        assert not any(link.attached for link in accepted)
        assert (engine.transfers.assembling_bytes, engine.endpoints.link_bytes, engine.endpoints.sessions) == (0, 0, {})


def test_a_thousand_mutations() -> None:
    for data in CORPUS:
        target(data)
    fuzz(target, CORPUS, TEST_INPUTS)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_very_many_mutations() -> None:
    fuzz(target, CORPUS, SOAK_INPUTS)
