"""Frames of HTTP/2, cut anywhere."""

from __future__ import annotations

import pytest

from annulet.bulk.bounds.http2_frames import (
    DATA,
    EMPTY_SETTINGS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PREFACE,
    SETTINGS,
    FrameError,
    FrameReader,
    go_away,
)


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 1) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def read(reader: FrameReader, *parts: bytes) -> tuple[list[tuple[int, int, int]], bytes]:
    heads, content = [], b""
    for part in parts:
        for piece in reader.read(part):
            if piece.content is None:
                heads.append((piece.kind, piece.flags, piece.stream))
            else:
                assert piece.kind == DATA
                content += piece.content
    return heads, content


STREAM = (
    frame(SETTINGS, bytes(6), stream=0)
    + frame(HEADERS, b"headers", stream=3)
    + frame(DATA, b"abc", stream=3)
    + frame(DATA, b"\x02de\0\0", PADDED | END_STREAM, stream=3)
    + frame(DATA, b"", END_STREAM, stream=5)
)
HEADS = [(SETTINGS, 0, 0), (HEADERS, 0, 3), (DATA, 0, 3), (DATA, PADDED | END_STREAM, 3), (DATA, END_STREAM, 5)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 9, 10, 1000])
def test_frames_are_told_apart_wherever_they_are_cut(size: int) -> None:
    whole = PREFACE + STREAM
    reader = FrameReader(PREFACE)
    parts = [whole[place : place + size] for place in range(0, len(whole), size)]
    assert read(reader, *parts) == (HEADS, b"abcde")
    assert reader.between_frames


def test_a_frame_may_be_put_in_only_between_frames() -> None:
    reader = FrameReader()
    assert reader.between_frames
    assert not reader.started
    read(reader, STREAM[:4])
    assert reader.started
    assert not reader.between_frames
    read(reader, STREAM[4:12])
    assert not reader.between_frames
    read(reader, STREAM[12:15])
    assert reader.between_frames


def test_other_protocols_are_refused() -> None:
    with pytest.raises(FrameError, match="HTTP/2"):
        read(FrameReader(PREFACE), b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize("payload", [b"", b"\x02a"])
def test_wrong_padding_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError, match="RFC 9113"):
        read(FrameReader(), frame(DATA, payload, PADDED))


def test_frames_that_end_a_connection() -> None:
    assert read(FrameReader(), EMPTY_SETTINGS + go_away("too much")) == ([(SETTINGS, 0, 0), (GOAWAY, 0, 0)], b"")
    assert go_away("why").endswith(b"\0\0\0\x0bwhy")
