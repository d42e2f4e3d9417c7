from __future__ import annotations

import pytest

from annulet.wire.stomp.engine import ConnectionEngine, header_line
from annulet.wire.stomp.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.stomp.states import ConnectionState
from tests.wire.stomp.recorder import Recorder

CONNECT = "CONNECT\naccept-version:1.1,1.2\nhost:/\nlogin:guest\npasscode:secret\n\n\0"


def test_connect_negotiates_the_best_common_version() -> None:
    peer = Recorder()
    peer.receive(CONNECT)
    assert peer.calls == [("authenticate", "guest", "secret", "/"), ("opened",)]
    connected = peer.sole("CONNECTED")
    assert connected.headers == {"version": "1.2", "session": "s1", "server": "Annulet/1", "heart-beat": "500,500"}
    assert peer.engine.running
    assert peer.engine.connect_headers == {"accept-version": "1.1,1.2", "host": "/", "login": "guest"}


@pytest.mark.parametrize(("offered", "chosen"), [("1.0", "1.0"), ("1.1,1.0", "1.1"), ("1.2, 1.3", "1.2")])
def test_each_version_can_be_had(offered: str, chosen: str) -> None:
    peer = Recorder()
    peer.receive(f"STOMP\naccept-version:{offered}\nhost:/\n\n\0")
    assert peer.sole("CONNECTED").headers["version"] == chosen


def test_without_accept_version_it_is_1_0() -> None:
    peer = Recorder()
    peer.receive("CONNECT\nlogin: guest\npasscode: secret\n\n\0")
    assert peer.calls[0] == ("authenticate", "guest", "secret", "")
    connected = peer.sole("CONNECTED")
    assert connected.headers["version"] == "1.0"
    assert "heart-beat" not in connected.headers


def test_no_common_version_is_an_error_that_names_ours() -> None:
    peer = Recorder()
    peer.receive("CONNECT\naccept-version:2.0\nhost:/\n\n\0")
    error = peer.sole("ERROR")
    assert error.headers["version"] == "1.0,1.1,1.2"
    assert "accept-version" in error.headers["message"]
    assert peer.engine.closed


@pytest.mark.parametrize(
    ("given", "sending", "receiving"),
    [("0,0", 0, 0), ("1000,2000", 2000, 1000), ("1,1", 500, 500), ("0,700", 700, 0), ("700,0", 0, 700)],
)
def test_heartbeats_are_negotiated_in_both_directions(given: str, sending: int, receiving: int) -> None:
    peer = Recorder().connect("1.2", f"heart-beat:{given}")
    assert (peer.engine.sending_interval, peer.engine.receiving_interval) == (sending, receiving)


def test_heartbeats_can_be_off() -> None:
    peer = Recorder(least_heartbeat=0)
    peer.receive("CONNECT\naccept-version:1.2\nhost:/\nheart-beat:1000,1000\n\n\0")
    assert peer.sole("CONNECTED").headers["heart-beat"] == "0,0"
    assert (peer.engine.sending_interval, peer.engine.receiving_interval) == (0, 0)
    with pytest.raises(LocalProtocolError, match="least_heartbeat is -1"):
        ConnectionEngine(peer, server="x", least_heartbeat=-1)


@pytest.mark.parametrize("given", ["1", "a,b", "1,2,3", "-1,0", "0,2147483648", ""])
def test_a_malformed_heartbeat_header_is_refused(given: str) -> None:
    peer = Recorder()
    peer.receive(f"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:{given}\n\n\0")
    assert "header 'heart-beat' is" in peer.sole("ERROR").headers["message"]


def test_a_heartbeat_is_a_line_end_and_sent_only_when_nothing_else_is() -> None:
    peer = Recorder().connect("1.2", "heart-beat:0,500")
    peer.engine.heartbeat()
    assert peer.engine.take_output() == [b"\n"]
    peer.engine.send_receipt("1")
    peer.engine.heartbeat()
    assert b"\n" not in peer.engine.take_output()
    peer.engine.received_since_check = False
    peer.receive("\n")
    assert peer.engine.received_since_check


def test_frames_wait_while_a_login_is_judged_and_then_are_served() -> None:
    peer = Recorder()
    peer.patient = True
    peer.receive(CONNECT + "SEND\ndestination:/queue/a\n\nx\0")
    assert [call[0] for call in peer.calls] == ["authenticate"]
    assert peer.engine.state is ConnectionState.AUTHENTICATING
    peer.engine.authenticated("s2")
    assert [call[0] for call in peer.calls] == ["authenticate", "opened", "send"]


def test_a_refused_login_is_an_error_and_the_end() -> None:
    peer = Recorder()
    peer.patient = True
    peer.receive(CONNECT + "SEND\ndestination:/queue/a\n\nx\0")
    peer.engine.refuse("no")
    assert peer.sole("ERROR").headers["message"] == "no"
    assert peer.engine.closed
    assert [call[0] for call in peer.calls] == ["authenticate", "closed"]
    peer.engine.authenticated("late")
    peer.engine.refuse("late")
    assert peer.frames() == []


def test_what_comes_before_the_login_is_bounded() -> None:
    peer = Recorder(max_unauthenticated_bytes=200)
    peer.patient = True
    peer.receive(CONNECT)
    peer.receive("\n" * (200 - len(CONNECT)))
    assert not peer.engine.closed
    peer.receive("\n")
    assert "more than 200 octets before authentication" in peer.sole("ERROR").headers["message"]
    assert peer.engine.limit_hits == {"max_unauthenticated_bytes": 1}


@pytest.mark.parametrize(
    ("limits", "frame", "limit"),
    [
        ({"max_header_bytes": 100}, f"SEND\ndestination:/queue/{'a' * 100}\n\n\0", "max_header_bytes"),
        ({"max_body_bytes": 10}, "SEND\ndestination:/queue/a\n\n12345678901\0", "max_body_bytes"),
        ({}, "SEND\n" + "a:1\n" * 1001 + "\n\0", "max_headers"),
    ],
)
def test_limits_that_end_a_connection_are_counted(limits: dict[str, int], frame: str, limit: str) -> None:
    peer = Recorder(**limits).connect()
    peer.receive("SEND\ndestination:/queue/a\n\n1234567890\0")
    assert peer.engine.limit_hits == {}
    peer.receive(frame)
    assert peer.sole("ERROR")
    assert peer.engine.limit_hits == {limit: 1}


def test_a_limit_of_the_owner_is_counted_under_its_name() -> None:
    peer = Recorder().connect()
    peer.error = RemoteProtocolError("too many", limit="transactions")
    peer.receive("BEGIN\ntransaction:t\n\n\0")
    assert peer.engine.limit_hits == {"transactions": 1}


@pytest.mark.parametrize(
    ("frame", "call"),
    [
        ("SEND\ndestination:/queue/a\ntransaction:t\n\nbody\0", ("send", "/queue/a", "t", b"body")),
        ("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0", ("subscribe", "1", "/queue/a", "auto")),
        ("SUBSCRIBE\nid:1\ndestination:/q\nack:client\n\n\0", ("subscribe", "1", "/q", "client")),
        ("UNSUBSCRIBE\nid:1\n\n\0", ("unsubscribe", "1", "")),
        ("ACK\nid:m1\ntransaction:t\n\n\0", ("acknowledge", "m1", "", "t")),
        ("NACK\nid:m1\n\n\0", ("negative_acknowledge", "m1", "", "")),
        ("BEGIN\ntransaction:t\n\n\0", ("begin", "t")),
        ("COMMIT\ntransaction:t\n\n\0", ("commit", "t")),
        ("ABORT\ntransaction:t\n\n\0", ("abort", "t")),
    ],
)
def test_each_frame_calls_the_handler_and_is_receipted(frame: str, call: tuple[object, ...]) -> None:
    peer = Recorder().connect()
    peer.receive(frame.replace("\n", "\nreceipt:r7\n", 1))
    assert peer.calls == [call]
    assert peer.sole("RECEIPT").headers == {"receipt-id": "r7"}


def test_disconnect_is_receipted_and_the_end() -> None:
    peer = Recorder().connect()
    peer.receive("DISCONNECT\nreceipt:77\n\n\0SEND\ndestination:/queue/a\n\nlate\0")
    assert peer.calls == [("disconnect", "77"), ("closed", "", True)]
    assert peer.sole("RECEIPT").headers == {"receipt-id": "77"}
    assert peer.engine.closed


@pytest.mark.parametrize(
    ("version", "frame", "text"),
    [
        ("1.2", "SEND\n\nx\0", "SEND needs the header 'destination' (STOMP 1.2)"),
        ("1.2", "SUBSCRIBE\ndestination:/queue/a\n\n\0", "SUBSCRIBE needs the header 'id'"),
        ("1.2", "ACK\nmessage-id:1\n\n\0", "ACK needs the header 'id'"),
        ("1.1", "ACK\nmessage-id:1\n\n\0", "ACK needs the header 'subscription'"),
        ("1.1", "NACK\nsubscription:1\n\n\0", "NACK needs the header 'message-id'"),
        ("1.0", "ACK\n\n\0", "ACK needs the header 'message-id'"),
        ("1.0", "NACK\nmessage-id:1\n\n\0", "unknown command 'NACK' in STOMP 1.0"),
        ("1.0", "UNSUBSCRIBE\n\n\0", "UNSUBSCRIBE needs the header 'id' or 'destination'"),
        ("1.2", "BEGIN\n\n\0", "BEGIN needs the header 'transaction'"),
        ("1.2", "SUBSCRIBE\nid:1\ndestination:/q\nack:never\n\n\0", "header 'ack' of SUBSCRIBE is 'never'; give auto"),
        ("1.2", "JUMP\n\n\0", "unknown command 'JUMP' in STOMP 1.2; known are ABORT, ACK"),
        ("1.2", "CONNECT\n\n\0", "'CONNECT' on a connection that is connected"),
        ("1.2", "BEGIN\ntransaction:t\n\nbody\0", "BEGIN has a body of 4 octets; only SEND may have one"),
        ("1.2", "SEND\nbroken\n\n\0", "write NAME:VALUE"),
    ],
)
def test_a_wrong_frame_is_an_error_that_names_the_header(version: str, frame: str, text: str) -> None:
    peer = Recorder().connect(version)
    peer.receive(frame)
    error = peer.sole("ERROR")
    assert text in error.headers["message"]
    assert text.encode() in error.body
    assert peer.engine.closed
    assert peer.calls[-1][0] == "closed"
    peer.receive(frame)
    assert peer.frames() == []


def test_a_frame_before_connect_is_refused() -> None:
    peer = Recorder()
    peer.receive("SEND\ndestination:/queue/a\n\nx\0")
    assert "first frame is 'SEND'; send CONNECT" in peer.sole("ERROR").headers["message"]


def test_http_on_the_port_is_refused() -> None:
    peer = Recorder()
    peer.receive("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    peer.receive("\0")
    assert "first frame is 'GET / HTTP/1.1'" in peer.sole("ERROR").headers["message"]


def test_1_0_and_1_1_settle_by_message_id() -> None:
    older = Recorder().connect("1.0")
    older.receive("ACK\nmessage-id:5\n\n\0UNSUBSCRIBE\ndestination:/queue/a\n\n\0")
    assert older.calls == [("acknowledge", "5", "", ""), ("unsubscribe", "", "/queue/a")]
    old = Recorder().connect("1.1")
    old.receive("NACK\nmessage-id:5\nsubscription:1\n\n\0")
    assert old.calls == [("negative_acknowledge", "5", "1", "")]


def test_what_the_handler_refuses_is_an_error_with_the_receipt_and_without_the_passcode() -> None:
    peer = Recorder().connect()
    peer.error = RemoteProtocolError("queue 'a' is full\nnow", {"destination": "/queue/a"})
    peer.receive("SEND\ndestination:/queue/a\nreceipt:9\n\nx\0")
    error = peer.sole("ERROR")
    assert error.headers["message"] == "queue 'a' is full now"
    assert error.headers["receipt-id"] == "9"
    assert error.headers["destination"] == "/queue/a"
    assert b"SEND destination='/queue/a'" in error.body


def test_a_defect_ends_the_connection_and_passes() -> None:
    peer = Recorder().connect()
    peer.error = ZeroDivisionError("secret detail")
    with pytest.raises(ZeroDivisionError):
        peer.receive("SEND\ndestination:/queue/a\n\nx\0")
    error = peer.sole("ERROR")
    assert "internal error" in error.headers["message"]
    assert b"secret detail" not in error.body


def test_a_broken_line_is_told_once() -> None:
    peer = Recorder().connect()
    peer.engine.connection_lost()
    peer.engine.connection_lost()
    assert peer.calls == [("closed", "", True)]
    assert peer.engine.closed


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("size", [0, 5, 5000])
def test_messages_carry_their_length_and_any_octets(version: str, size: int) -> None:
    peer = Recorder().connect(version)
    head = header_line("subscription", "1", version)
    peer.engine.send_message(head, b"destination:/queue/a\n", b"\0" * size)
    assert peer.engine.output_size == sum(len(part) for part in peer.engine._output)
    message = peer.sole("MESSAGE")
    assert message.headers == {"subscription": "1", "content-length": str(size), "destination": "/queue/a"}
    assert message.body == b"\0" * size


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_name_with_a_nul_or_half_a_character_does_not_end_the_frame(version: str) -> None:
    """Routing keys of AMQP clients may have a NUL."""
    peer = Recorder().connect(version)
    peer.engine.send_message(header_line("destination", "/queue/a\0b\ud800", version), b"", b"x")
    message = peer.sole("MESSAGE")
    assert (message.headers["destination"], message.body) == ("/queue/a\u2400b" + "\ufffd" * 3, b"x")


def test_the_trace_of_a_message_is_one_line_of_its_own_headers() -> None:
    peer = Recorder().connect()
    peer.engine.send_message(b"subscription:1\n", "a:b\u2028redelivered:true\n".encode(), b"")
    assert peer.lines[-1] == ("MESSAGE subscription='1' a='b\\u2028redelivered:true'", False)


@pytest.mark.parametrize(
    "frame",
    ["CONNECT\nlogin:me\npasscode:hunter2\0", "CONNECT\npasscode=hunter2\n\n\0", "STOMP\nhunter2\nlogin:me\n\n\0"],
)
def test_a_malformed_login_is_not_quoted(frame: str) -> None:
    """What is wrong with it is told, and logged: the password with it would be in the log."""
    peer = Recorder()
    peer.receive(frame)
    error = peer.sole("ERROR")
    assert "CONNECT" in error.headers["message"] or "STOMP" in error.headers["message"]
    assert "hunter2" not in repr((error.headers, error.body, peer.calls, peer.lines))


def test_the_trace_shows_both_directions_and_no_passcode() -> None:
    peer = Recorder()
    peer.receive(CONNECT)
    peer.engine.send_message(b"subscription:1\n", b"a:b\n", b"x")
    lines = peer.lines
    assert lines[0] == ("CONNECT accept-version='1.1,1.2' host='/' login='guest' passcode='***'", True)
    assert lines[1][0].startswith("CONNECTED version='1.2'")
    assert lines[2] == ("MESSAGE subscription='1' a='b' body=1 octets b'x'", False)
