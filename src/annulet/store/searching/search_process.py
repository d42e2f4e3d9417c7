"""The search process: it looks through stretches of segments for octets in the headers of messages.

It is a child of the broker that imports this module and little else. A packet on its socket is one stretch, with the
open file beside it; the answer is the numbers of the records in doubt. It ends when the socket does, so no later than
the broker, however that ends. It writes nothing.
"""

from __future__ import annotations

import marshal
import os
import socket
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

from annulet.store.segments.decoding import first_doubtful, stand_in_order
from annulet.store.segments.head_reading import HeadBlocks

if TYPE_CHECKING:
    from annulet.store.searching.search import Stretch
    from annulet.store.segments.head_reading import ReadBytes

NICENESS: Final = 5
"""Above the broker's: where both want the same core it gets a quarter of it."""

READ_BYTES: Final = 120 << 10
"""Bytes of one read: 0.27 µs a message of 1 KiB, including the search of its header. With 64 KiB 0.29, with 192 KiB and
more 0.35 to 0.4: a buffer of 128 KiB and above is new memory each time."""

RECORD_BYTES_MAX: Final = 1 << 20
"""Bytes of the largest record that is read for its header.

Longer ones are in doubt: the event loop reads them one by one.
"""

PACKET_BYTES_MAX: Final = 128 << 10
"""Bytes of one packet: the offsets of a stretch are half of that."""

_NUMBER: Final = Struct("<Q")


def doubtful(
    read: ReadBytes,
    places: array[int],
    end: int,
    needles: Sequence[list[bytes]],
    heads: Callable[[list[int], list[int]], tuple[list[int], list[int]]] | None = None,
) -> Sequence[int]:
    """Return the indexes, ascending, of records at ``places`` that may have all octets of one of these lists in their
    header.

    ``read`` returns up to this many bytes (first argument) from an offset (second argument) on. ``end``: the largest
    end of the last record. In doubt are also records without a place (0), unreadable ones, and anything but whole
    messages. ``heads`` returns for places and these indexes of them which are in doubt and which it does not know,
    without reading the records.
    """
    starts, numbers = places.tolist(), list(range(len(places)))
    if not stand_in_order(starts):  # all do, and none is 0, as nearly always
        numbers = [index for index, place in enumerate(starts) if place]
        starts = [starts[index] for index in numbers]
        if not stand_in_order(starts):
            return range(len(places))
    bounds = [*starts, end]
    if heads is None:
        found = _doubtful_of(read, bounds, 0, len(starts), needles)
    else:
        found, missing = heads(starts, numbers)
        for start, stop in _neighbours(missing):
            found += _doubtful_of(read, bounds, start, stop, needles)
        found.sort()
    if len(numbers) == len(places):
        return found
    return sorted({*range(len(places))} - set(numbers) | {numbers[index] for index in found})


def _neighbours(indexes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield beginning and end of those that follow each other, ascending."""
    start = 0
    for place in range(1, len(indexes) + 1):
        if place == len(indexes) or indexes[place] != indexes[place - 1] + 1:
            yield indexes[start], indexes[place - 1] + 1
            start = place


def _doubtful_of(
    read: ReadBytes, bounds: list[int], start: int, count: int, needles: Sequence[list[bytes]]
) -> list[int]:
    """Do that for the records from ``start`` to before ``count``, each of which ends at the next of these bounds."""
    found: list[int] = []
    while start < count:
        first = bounds[start]
        stop = min(count, max(start + 1, bisect_right(bounds, first + READ_BYTES, start) - 1))
        length = bounds[stop] - first
        try:
            data = read(length, first) if 0 < length <= RECORD_BYTES_MAX else b""
        except OSError:  # the broker will read it itself and report the damage
            data = b""
        part = bounds[start:stop]
        index = first_doubtful(data, first, part, 0, needles)
        while index < len(part):
            found.append(start + index)
            index = first_doubtful(data, first, part, index + 1, needles)
        start = stop
    return found


def pack_stretch(stretch: Stretch) -> bytes:
    """Return the packet of a request for a range; its file is sent with it, and that of its heads if there is one."""
    needles = [list(demanded) for demanded in stretch.needles]
    return marshal.dumps((stretch.number, stretch.first, stretch.places.tobytes(), stretch.end, stretch.seed, needles))


def pack_answer(number: int, doubts: Sequence[int]) -> bytes:
    """Return the packet that answers."""
    return _NUMBER.pack(number) + array("I", doubts).tobytes()


def unpack_answer(packet: bytes) -> tuple[int, array[int]]:
    """Return the number of the stretch, and the indexes of its records in doubt."""
    doubts = array("I")
    doubts.frombytes(packet[_NUMBER.size :])
    return int(_NUMBER.unpack_from(packet)[0]), doubts


def serve(channel: socket.socket) -> None:
    """Answer packets until the other side closes."""
    blocks = HeadBlocks()
    while True:
        packet, descriptors, _, _ = socket.recv_fds(channel, PACKET_BYTES_MAX, 2)
        if not packet:
            return
        try:
            number, record, encoded, end, seed, needles = marshal.loads(packet)  # noqa: S302 - the broker has made it
            places = array("I")
            places.frombytes(encoded)
            heads = None
            if len(descriptors) > 1:
                heads = partial(blocks.doubtful, partial(os.pread, descriptors[1]), record, seed, needles)
            doubts = doubtful(partial(os.pread, descriptors[0]), places, end, needles, heads)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        channel.send(pack_answer(number, doubts))


def main(descriptor: int) -> None:
    """Run as the search process; the number is that of the inherited socket."""
    os.nice(NICENESS)
    try:
        with socket.socket(fileno=descriptor) as channel:
            serve(channel)
    except ConnectionError:  # the broker has ended
        return
