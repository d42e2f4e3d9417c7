from __future__ import annotations

import pytest

from annulet.core.message.message import Message, Origin
from annulet.wire.stomp.errors import RemoteProtocolError
from annulet.wire.stomp.frames import FrameReader
from annulet.wire.stomp.send_headers import read_send
from annulet.wire.stomp.view import VIEW
from tests.wire.fuzzing import SOAK_INPUTS, TEST_INPUTS, fuzz
from tests.wire.stomp.recorder import Recorder

ORIGIN = Origin("", "a", "", VIEW)
CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:1000,0\nlogin:guest\npasscode:guest\n\n\0"
CORPUS = [
    CONNECT,
    CONNECT + b"SEND\ndestination:/queue/a\ncontent-length:5\npersistent:true\npriority:7\n\na\0b\nc\0\n",
    CONNECT + b"SUBSCRIBE\nid:1\ndestination:/topic/a.b\nack:client\nselector:a = 'b\\c'\n\n\0ACK\nid:s-1\n\n\0",
    b"STOMP\r\naccept-version:1.0,1.1\r\n\r\n\0NACK\nmessage-id:5\nsubscription:1\nreceipt:\\n\\\\\n\n\0\r\n",
    CONNECT
    + b"BEGIN\ntransaction:t\n\n\0COMMIT\ntransaction:t\n\n\0ABORT\ntransaction:t\n\n\0DISCONNECT\nreceipt:1\n\n\0",
    CONNECT + b'SEND\ndestination:/queue/a\nx-death:[{"queue":"a"}]\nexpires:1\nx-delay:5\n\n[1]\0',
]


def serve(data: bytes) -> None:
    """One read or many, the engine ends up the same: it never raises, and closes with an ERROR or not at all."""
    whole = Recorder(max_unauthenticated_bytes=1 << 20)
    whole.receive(data)
    pieces = Recorder(max_unauthenticated_bytes=1 << 20)
    for start in range(0, len(data), 7):
        pieces.receive(data[start : start + 7])
    assert whole.calls == pieces.calls
    assert [frame.command for frame in whole.frames()] == [frame.command for frame in pieces.frames()]
    assert whole.engine.closed == pieces.engine.closed


def keep(data: bytes) -> None:
    """What SEND lets in can be asked everything and converted."""
    reader = FrameReader()
    reader.version = "1.2"
    reader.feed(data)
    try:
        while (frame := reader.next_frame()) is not None:
            facts = read_send(frame.headers)
            message = Message(facts.block, frame.body, ORIGIN)
            VIEW.properties(message)
            VIEW.content(message)
            VIEW.deaths(message)
            assert VIEW.deliver_at(message) == facts.due_at(0)
            VIEW.forwarded_header(message, VIEW.deaths(message) or [], {}, rerouted=False) if VIEW.deaths(
                message
            ) else None
    except RemoteProtocolError:
        return


@pytest.mark.parametrize("target", [serve, keep], ids=lambda target: target.__name__)
def test_a_thousand_mutations(target: object) -> None:
    assert callable(target)
    fuzz(target, CORPUS, TEST_INPUTS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", [serve, keep], ids=lambda target: target.__name__)
def test_very_many_mutations(target: object) -> None:
    assert callable(target)
    fuzz(target, CORPUS, SOAK_INPUTS)
