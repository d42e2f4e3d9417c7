"""Random valid histories of a peer against the engine: what each side may count on holds at every step."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from annulet.wire.amqp10.frames.performatives import (
    Accepted,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Released,
    Transfer,
)
from tests.hypothesis_profiles import state_machine_settings
from tests.wire.amqp10.recorder import attach_receiver, attach_sender, begin, frame, frames_with_payload, opened

WINDOW = 8
FRAME_SIZE = 512
MAX_UNSETTLED = 6


class History(RuleBasedStateMachine):
    """Plays a well-behaved peer with one session and one link per direction, and keeps its own books."""

    def __init__(self) -> None:
        super().__init__()
        fields = {"max_frame_size": FRAME_SIZE}
        self.engine, self.handler = opened(incoming_window=WINDOW, max_unsettled=MAX_UNSETTLED, open_fields=fields)
        self.engine.receive(begin(incoming_window=5) + attach_sender() + attach_receiver())
        self.input: deque[bytes] = deque()
        self.frames_allowed = WINDOW  # of ours, until the engine renews
        self.transfers_sent = 0  # of ours
        self.deliveries_sent = 0
        self.link_credit = 0  # the engine granted to us
        self.messages: list[bytes] = []
        self.settled_by_engine: set[int] = set()
        self.presettled: set[int] = set()
        self.partial: bytes | None = None
        self.window = 5  # we granted to the engine
        self.taken = 0  # transfers of the engine
        self.credit_limit = 0  # deliveries the engine may have sent in all
        self.received: list[bytes] = []
        self.receiving = b""
        self.handed_in: list[bytes] = []
        self.unsettled: set[int] = set()  # of the engine's
        self.collect()

    def flush(self) -> None:
        data = b"".join(self.input)
        self.input.clear()
        self.engine.receive(data)

    def collect(self) -> None:
        """Read what the engine wrote, as the peer."""
        for _, item, payload in frames_with_payload(self.engine):
            assert not isinstance(item, End | Detach), item
            if isinstance(item, Flow):
                assert item.next_incoming_id is not None
                self.frames_allowed = item.next_incoming_id + item.incoming_window - self.transfers_sent
                if item.handle == 0:
                    assert item.delivery_count is not None
                    assert item.link_credit is not None
                    self.link_credit = item.delivery_count + item.link_credit - self.deliveries_sent
            elif isinstance(item, Transfer):
                self.take(item, payload)
            elif isinstance(item, Disposition):
                last = item.first if item.last is None else item.last
                new = set(range(item.first, last + 1))
                if item.role:
                    assert not new & self.settled_by_engine, "settled twice"
                    self.settled_by_engine |= new
            else:
                assert isinstance(item, Begin | Attach)

    def take(self, item: Transfer, payload: bytes) -> None:
        self.window -= 1
        self.taken += 1
        assert self.window >= 0, "the engine ran over our incoming window"
        assert len(payload) < FRAME_SIZE
        self.receiving += payload
        if item.delivery_tag is not None and not item.settled:
            assert item.delivery_id is not None
            self.unsettled.add(item.delivery_id)
        if not item.more:
            self.received.append(self.receiving)
            self.receiving = b""
            assert len(self.received) <= self.credit_limit, "the engine ran over our credit"

    @rule(number=st.integers(1, 10))
    def owner_grants(self, number: int) -> None:
        self.flush()
        self.engine.credit.grant_credit(self.handler.links["in"], number)
        self.collect()

    def may_send(self) -> bool:
        unsettled = self.deliveries_sent - len(self.settled_by_engine) - len(self.presettled)
        allowed = self.link_credit > 0 and self.frames_allowed > 0 and unsettled < MAX_UNSETTLED
        return allowed and self.partial is None

    @precondition(may_send)
    @rule(settled=st.lists(st.booleans(), min_size=1, max_size=6), payload=st.binary(max_size=20), more=st.booleans())
    def peer_sends(self, settled: list[bool], payload: bytes, more: bool) -> None:
        for index, each in enumerate(settled):
            if self.may_send():
                self.send(payload, more and index == len(settled) - 1, each)

    def send(self, payload: bytes, more: bool, settled: bool) -> None:
        number = self.deliveries_sent
        self.input.append(frame(Transfer(0, number, b"%d" % number, 0, settled, more), 0, payload))
        if settled:
            self.presettled.add(number)
        self.deliveries_sent += 1
        self.link_credit -= 1
        self.count_transfer()
        if more:
            self.partial = payload
        else:
            self.messages.append(payload)

    @precondition(lambda self: self.partial is not None and self.frames_allowed > 0)
    @rule(payload=st.binary(max_size=20))
    def peer_completes(self, payload: bytes) -> None:
        assert self.partial is not None
        self.input.append(frame(Transfer(0), 0, payload))
        self.messages.append(self.partial + payload)
        self.partial = None
        self.count_transfer()

    def count_transfer(self) -> None:
        self.transfers_sent += 1
        self.frames_allowed -= 1

    @rule()
    def network_delivers(self) -> None:
        self.flush()
        self.collect()

    @rule(number=st.integers(0, 30), state=st.sampled_from([Accepted(), Released()]))
    def owner_settles(self, number: int, state: Any) -> None:
        self.flush()
        self.engine.transfers.settle_incoming(self.handler.links["in"].session, 0, number, state)

    @rule(number=st.integers(0, 4), window=st.integers(0, 4))
    def peer_grants(self, number: int, window: int) -> None:
        self.flush()
        self.collect()  # the peer knows all that has left
        self.window = window
        self.credit_limit = max(self.credit_limit, len(self.received) + bool(self.receiving) + number)
        count = len(self.received) + bool(self.receiving)
        self.input.append(frame(Flow(self.taken, window, self.transfers_sent, 100, 1, count, number)))
        self.flush()

    @precondition(lambda self: self.handler.links["out"].credit > 0 and self.handler.links["out"].session.writable)
    @rule(size=st.sampled_from([0, 1, 400, 480, 500, 1200, 2500]), settled=st.booleans())
    def owner_sends(self, size: int, settled: bool) -> None:
        payload = bytes((len(self.handed_in) % 251,)) * size
        self.handed_in.append(payload)
        self.engine.transfers.send_transfer(
            self.handler.links["out"], b"t%d" % len(self.handed_in), payload, settled=settled
        )

    @precondition(lambda self: bool(self.unsettled))
    @rule()
    def peer_settles(self) -> None:
        number = self.unsettled.pop()
        self.input.append(frame(Disposition(True, number, None, True, Accepted())))

    @invariant()
    def messages_arrive_once_and_in_order(self) -> None:
        came = [delivery.payload for delivery in self.handler.deliveries()]
        assert came == self.messages[: len(came)]
        assert self.received == self.handed_in[: len(self.received)]

    @invariant()
    def nothing_was_refused(self) -> None:
        self.collect()
        assert self.engine.opened
        assert self.engine.limit_hits == {}

    @invariant()
    def bounds_hold(self) -> None:
        session = self.handler.links["out"].session
        assert len(session.outgoing_unsettled) <= MAX_UNSETTLED
        assert (
            session.writable or session.pending or len(session.outgoing_unsettled) == MAX_UNSETTLED or session.touched
        )
        assert not self.settled_by_engine & self.presettled

    def teardown(self) -> None:
        self.flush()
        self.engine.connection_lost()
        order = self.handler.order()
        assert order[-4:] == ["detached", "detached", "session_ended", "connection_closed"]
        if self.partial is None:
            assert [delivery.payload for delivery in self.handler.deliveries()] == self.messages
        assert self.engine.transfers.assembling_bytes == 0


TestHistory = History.TestCase
TestHistory.settings = state_machine_settings(examples=60, steps=40)
