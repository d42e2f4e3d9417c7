from __future__ import annotations

import os

import pytest

from benchmarks.disk import slow_disk, sync_milliseconds
from benchmarks.loads.figures import Counter, Run


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_text_is_counted_where_pieces_meet(size: int) -> None:
    octets = b"x<mark>yy<mark><mark>z<mar"
    counter = Counter(b"<mark>")
    for begin in range(0, len(octets), size):
        counter.feed(octets[begin : begin + size])
    assert counter.count == 3
    assert counter.feed(b"k>") == 4


def test_figures_have_the_keys_of_the_generators_in_c() -> None:
    run = Run(os.getpid())
    figures = run.figures(sent=100, received=50, sent_after=2.0, received_after=5.0)
    assert figures["send_rate"] == 50
    assert figures["recv_rate"] == 10
    assert figures["broker_us_per_msg"] >= 0
    assert figures["rss_kb0"] > 0


def test_a_slow_disk_delays_each_kind_of_sync() -> None:
    words = slow_disk(6.0)
    assert words[-1] == "inject=fsync,fdatasync,sync_file_range,msync:delay_exit=6000"
    assert sync_milliseconds() >= 0
