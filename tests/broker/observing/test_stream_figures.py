from __future__ import annotations

from annulet.admin.listening.http_connection import HTTP_CONNECTIONS_MAX
from annulet.broker.observing.stream_figures import CONSOLE_STREAMS_MAX, CONSOLE_STREAMS_PER_USER_MAX, StreamFigures


def test_streams_leave_connections_to_others() -> None:
    assert CONSOLE_STREAMS_PER_USER_MAX < CONSOLE_STREAMS_MAX <= HTTP_CONNECTIONS_MAX // 2


def test_figures_begin_at_nothing() -> None:
    assert StreamFigures() == StreamFigures(streams=0, sampled=0, skipped=0)
