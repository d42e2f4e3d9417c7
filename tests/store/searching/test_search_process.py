"""What the search process says of records, and how it is asked: the real loop on a socket, in a thread."""

from __future__ import annotations

import errno
import os
import random
import socket
import threading
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from annulet.core.message.message import Message
from annulet.store.searching.search import STRETCH_RECORDS_MAX, Stretch
from annulet.store.searching.search_process import (
    PACKET_BYTES_MAX,
    READ_BYTES,
    RECORD_BYTES_MAX,
    doubtful,
    main,
    pack_answer,
    pack_stretch,
    unpack_answer,
)
from annulet.store.segments.records import encode_control, encode_message, encode_origin
from tests.store.log.test_log_tools import ORIGIN
from tests.store.searching.test_search_tools import RED, wanted

SEED = 7
START = 32


def stored(header: bytes, size: int = 10, ordinal: int = 0) -> bytes:
    written = Message(header, b"red".ljust(size), ORIGIN, durable=True)
    return encode_message(written, encode_origin(ORIGIN), [(3, ordinal + 1)], ordinal, 1, 0, SEED) + written.body


def placed(parts: list[bytes]) -> tuple[bytes, list[int], int]:
    """Return the bytes of a file with these records, where they stand, and where the last ends."""
    places, data = [], bytes(START)
    for part in parts:
        places.append(len(data))
        data += part
    return data, places, len(data)


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda length, offset: data[offset : offset + length]


@pytest.mark.parametrize("seed", range(5))
def test_it_says_of_each_record_what_its_header_has(seed: int) -> None:
    """Sizes around those of a read, and above that of what is read at all."""
    moments = random.Random(seed)
    sizes = [0, 10, 1000, READ_BYTES // 3, READ_BYTES - 150, READ_BYTES, READ_BYTES + 150, RECORD_BYTES_MAX]
    headers = [moments.choice([b"red", b"blue", b"green", b"darkred", b""]) for _ in range(150)]
    parts = [stored(header, moments.choice(sizes[:4] * 8 + sizes)) for header in headers]
    data, places, end = placed(parts)
    found = doubtful(reader(data + bytes(100)), array("I", places), end, [[b"red"], [b"gre", b"een"]])
    expected = [
        number for number, header in enumerate(headers)
        if b"red" in header or header == b"green" or len(parts[number]) > RECORD_BYTES_MAX
    ]  # fmt: skip
    assert list(found) == expected


def test_the_longest_record_that_is_read() -> None:
    overhead = len(stored(b"blue", 10)) - 10
    found = []
    for size in (RECORD_BYTES_MAX - overhead, RECORD_BYTES_MAX - overhead + 1):
        data, places, end = placed([stored(b"blue", size)])
        found.append(list(doubtful(reader(data), array("I", places), end, [[b"red"]])))
    assert found == [[], [0]]


def test_in_doubt_is_what_is_no_message_and_what_is_nowhere_or_cut_off() -> None:
    parts = [stored(b"blue"), encode_control(2, bytes(100), 9, 0, SEED), stored(b"blue"), stored(b"blue")[:-1]]
    data, places, end = placed(parts)
    assert list(doubtful(reader(data), array("I", places), end, [[b"red"]])) == [1, 3]
    places.insert(1, 0)
    assert list(doubtful(reader(data), array("I", places), end, [[b"red"]])) == [1, 2, 4]
    assert list(doubtful(reader(data), array("I", [places[2], places[0]]), end, [[b"red"]])) == [0, 1], "out of order"
    assert list(doubtful(reader(data), array("I", [0, 0]), end, [[b"red"]])) == [0, 1]
    assert list(doubtful(reader(data), array("I"), end, [[b"red"]])) == []
    assert list(doubtful(reader(data), array("I", places[:1]), places[0], [[b"red"]])) == [0], "it ends where it begins"


def test_in_doubt_is_what_cannot_be_read() -> None:
    data, places, end = placed([stored(b"blue", READ_BYTES // 2) for _ in range(9)])

    def refusing(length: int, offset: int) -> bytes:
        if offset <= places[4] < offset + length:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return data[offset : offset + length]

    found = list(doubtful(refusing, array("I", places), end, [[b"red"]]))
    assert 4 in found
    assert 0 < len(found) < 9


def test_the_largest_stretch_fits_its_packets() -> None:
    stretch = Stretch(1 << 60, 1, STRETCH_RECORDS_MAX, frozenset({(b"x" * 4096,)}))
    stretch.places = array("I", [0xFFFFFFFF] * STRETCH_RECORDS_MAX)
    stretch.end = 1 << 32
    assert len(pack_stretch(stretch)) <= PACKET_BYTES_MAX
    packet = pack_answer(stretch.number, range(STRETCH_RECORDS_MAX))
    assert len(packet) <= PACKET_BYTES_MAX
    assert unpack_answer(packet) == (stretch.number, array("I", range(STRETCH_RECORDS_MAX)))


def test_it_answers_until_the_other_side_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda more: more)  # it stays with the process of the tests
    data, places, end = placed([stored(b"red" if number % 5 == 4 else b"blue") for number in range(50)])
    path = tmp_path / "segment"
    path.write_bytes(data)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(60)
    thread = threading.Thread(target=main, args=(theirs.detach(),))
    thread.start()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number, needles in ((5, RED), (6, wanted(b"blue")), (7, wanted(b"green"))):
        stretch = Stretch(number, 1, 50, needles)
        stretch.places, stretch.end = array("I", places), end
        with path.open("rb") as file:
            socket.send_fds(ours, [pack_stretch(stretch)], [file.fileno()])
        answered, doubts = unpack_answer(ours.recv(PACKET_BYTES_MAX))
        expected = {5: range(4, 50, 5), 6: [place for place in range(50) if place % 5 != 4], 7: []}[number]
        assert (answered, list(doubts)) == (number, list(expected))
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "files are closed again"
    ours.close()
    thread.join(60)
    assert not thread.is_alive()
