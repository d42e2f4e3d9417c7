from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.stomp.constants import VERSION_1_0, VERSION_1_1, VERSION_1_2, VERSIONS
from annulet.wire.stomp.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.stomp.frames import Frame, FrameReader, encode_frame, escape, unescape

SEND = b"SEND\ndestination:/queue/a\ncontent-length:5\n\na\0b\nc\0"
PLAIN = b"SEND\ndestination:/queue/a\n\nhello\0"
WHOLE = SEND + b"\n\r\n" + PLAIN + b"\n" + b"DISCONNECT\r\nreceipt:7\r\n\r\n\0"


def reader(version: str = VERSION_1_2, **limits: int) -> FrameReader:
    made = FrameReader(**limits)
    made.version = version
    return made


def frames_of(data: bytes, version: str = VERSION_1_2, **limits: int) -> list[Frame]:
    made = reader(version, **limits)
    made.feed(data)
    found = []
    while (frame := made.next_frame()) is not None:
        found.append(frame)
    return found


def facts(frames: list[Frame]) -> list[tuple[str, dict[str, str], bytes]]:
    return [(frame.command, frame.headers, frame.body) for frame in frames]


EXPECTED = [
    ("SEND", {"destination": "/queue/a", "content-length": "5"}, b"a\0b\nc"),
    ("SEND", {"destination": "/queue/a"}, b"hello"),
    ("DISCONNECT", {"receipt": "7"}, b""),
]


def test_a_stream_is_read_whole() -> None:
    assert facts(frames_of(WHOLE)) == EXPECTED


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_stream_is_read_in_pieces_of_any_size(size: int) -> None:
    made = reader()
    found = []
    for start in range(0, len(WHOLE), size):
        made.feed(WHOLE[start : start + size])
        while (frame := made.next_frame()) is not None:
            found.append(frame)
    assert facts(found) == EXPECTED
    assert made.pending == 0


def test_every_truncation_waits_for_more() -> None:
    for end in range(len(SEND)):
        made = reader()
        made.feed(SEND[:end])
        assert made.next_frame() is None
        made.feed(SEND[end:])
        frame = made.next_frame()
        assert frame is not None
        assert frame.body == b"a\0b\nc"


def test_octets_behind_a_frame_wait_for_the_next() -> None:
    made = reader()
    made.feed(PLAIN + b"SEND\ndest")
    assert made.next_frame() is not None
    assert made.next_frame() is None
    assert made.pending == len(b"SEND\ndest")


def test_of_repeated_headers_the_first_counts() -> None:
    (frame,) = frames_of(b"SEND\na:1\na:2\n\n\0")
    assert frame.headers == {"a": "1"}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"SEND\ndestination\n\n\0", "line 2 of 'SEND' is 'destination'; write NAME:VALUE"),
        (b"SEND\n:value\n\n\0", "write NAME:VALUE"),
        (b"SEND\ndestination:/queue/a\0", "ends within its headers"),
        (b"SEND\na:\xff\n\n\0", "not UTF-8 at octet 7"),
        (b"SEND\ncontent-length:x\n\n\0", "header 'content-length' of SEND is 'x'"),
        (b"SEND\ncontent-length:-1\n\n\0", "give the octets of the body as a number"),
        (b"SEND\ncontent-length:2\n\nabc\0", "octet 99 behind the body of SEND, not NUL"),
        (b"\rX", "a CR without LF between frames"),
        (b"SEND\na:b\\t\n\n\0", r"has the escape sequence '\\t'; STOMP 1.2 knows"),
        (b"SEND\na:b\\\n\n\0", "has the escape sequence"),
    ],
)
def test_a_malformed_frame_is_refused_with_its_place(data: bytes, text: str) -> None:
    made = reader()
    made.feed(data)
    with pytest.raises(RemoteProtocolError) as caught:
        made.next_frame()
    assert text in caught.value.text


def test_limits_hold_at_their_size_and_not_beyond() -> None:
    head = b"SEND\na:" + b"x" * 93
    assert len(head) == 100
    assert len(frames_of(head + b"\n\n\0", max_header_bytes=100)) == 1
    for data in (head + b"x\n\n\0", head + b"x" * 8):
        with pytest.raises(RemoteProtocolError, match="command and headers exceed 100 bytes"):
            frames_of(data, max_header_bytes=100)
    assert len(frames_of(b"SEND\na:1\nb:1\n\n\0", max_headers=2)) == 1
    with pytest.raises(RemoteProtocolError, match="frame has 3 headers, at most 2"):
        frames_of(b"SEND\na:1\nb:1\nc:1\n\n\0", max_headers=2)
    for length in (b"", b"content-length:10\n"):
        assert len(frames_of(b"SEND\n" + length + b"\n" + b"x" * 10 + b"\0", max_body_bytes=10)) == 1
    with pytest.raises(RemoteProtocolError, match="body of 11 bytes or more, at most 10"):
        frames_of(b"SEND\ncontent-length:11\n\n", max_body_bytes=10)
    with pytest.raises(RemoteProtocolError, match="at most 10"):
        frames_of(b"SEND\n\n" + b"x" * 11, max_body_bytes=10)


def test_a_body_in_many_pieces_is_joined_once() -> None:
    made = reader()
    made.feed(b"SEND\ncontent-length:40000\n\n")
    for _ in range(400):
        assert made.next_frame() is None
        made.feed(b"\0" * 100)
    made.feed(b"\0")
    frame = made.next_frame()
    assert frame is not None
    assert frame.body == b"\0" * 40_000


@pytest.mark.parametrize(
    ("version", "written"),
    [(VERSION_1_0, "a:b\\\\n\\c"), (VERSION_1_1, "a\\cb\\n\\\\c"), (VERSION_1_2, "a\\cb\\n\\\\c")],
)
def test_escaping_by_version(version: str, written: str) -> None:
    if version == VERSION_1_0:
        assert escape("a:b\n", version) == "a:b\\n"
        assert unescape("a\\cb", version) == "a\\cb"
        return
    assert escape("a:b\n\\c", version) == written
    assert unescape(written, version) == "a:b\n\\c"


def test_a_carriage_return_has_a_sequence_in_1_2_only() -> None:
    assert escape("a\rb") == "a\\rb"
    assert escape("a\rb", VERSION_1_1) == "a\rb"
    with pytest.raises(RemoteProtocolError, match=r"STOMP 1\.1 knows"):
        unescape("a\\rb", VERSION_1_1)


def test_connect_is_not_escaped_in_any_version() -> None:
    (frame,) = frames_of(b"CONNECT\nlogin:a\\cb\n\n\0")
    assert frame.headers == {"login": "a\\cb"}
    assert encode_frame(Frame("CONNECTED", {"session": "a:b"})) == b"CONNECTED\nsession:a:b\n\n\0"


def test_1_0_trims_values_and_later_versions_do_not() -> None:
    data = b"CONNECT\nlogin: guest \npasscode: x\n\n\0"
    assert frames_of(data, VERSION_1_0)[0].headers == {"login": "guest", "passcode": "x"}
    newer = b"CONNECT\naccept-version:1.2\npasscode: x\n\n\0"
    assert frames_of(newer, VERSION_1_0)[0].headers["passcode"] == " x"
    assert frames_of(b"SEND\na: b \n\n\0", VERSION_1_1)[0].headers == {"a": " b "}


def test_a_header_that_cannot_be_written_is_our_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="RECEIPT cannot carry header"):
        encode_frame(Frame("RECEIPT", {"receipt-id": "a\0b"}))
    with pytest.raises(LocalProtocolError, match="CONNECTED cannot carry header"):
        encode_frame(Frame("CONNECTED", {"session": "a\nb"}))


def test_a_frame_prints_itself_without_its_secrets() -> None:
    frame = Frame("CONNECT", {"login": "guest", "passcode": "secret"}, b"\0" * 40)
    assert repr(frame) == f"CONNECT login='guest' passcode='***' body=40 octets {bytes(32)!r}..."
    assert "secret" not in repr(frame)


text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
names = text.filter(bool)


@given(st.dictionaries(names, text, max_size=5), st.binary(max_size=50), st.sampled_from(VERSIONS))
def test_what_is_written_is_read_again(headers: dict[str, str], body: bytes, version: str) -> None:
    headers.pop("content-length", None)
    if version != VERSION_1_2:
        headers = {name.replace("\r", ""): value.replace("\r", "") for name, value in headers.items()}
    if version == VERSION_1_0:
        strip = str.maketrans("", "", ":\n\\")
        headers = {name.translate(strip): value.translate(strip).strip() for name, value in headers.items()}
    headers = {name: value for name, value in headers.items() if name}
    (frame,) = frames_of(encode_frame(Frame("MESSAGE", headers, body), version), version)
    assert frame.headers == headers | ({"content-length": str(len(body))} if body else {})
    assert frame.body == body
