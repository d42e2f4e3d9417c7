from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from annulet.broker.observing.tracing import frame_trace
from annulet.broker.settings.configuration import BrokerConfiguration, LogLevel


class Connection:
    name = ""


def configuration(tmp_path: Path, level: LogLevel) -> BrokerConfiguration:
    return BrokerConfiguration(data_directory=tmp_path, log_level=level)


def test_at_level_debug_a_frame_is_a_line_with_its_peer(tmp_path: Path) -> None:
    connection = Connection()
    trace = frame_trace(configuration(tmp_path, "debug"), connection)
    assert trace is not None
    connection.name = "127.0.0.1:40000 -> 127.0.0.1:5672"  # known later than the trace
    with capture_logs() as events:
        trace("<- #1 basic.qos(prefetch_count=100%)")
    assert events == [
        {
            "event": "<- #1 basic.qos(prefetch_count=100%)",
            "peer": "127.0.0.1:40000 -> 127.0.0.1:5672",
            "log_level": "debug",
        }
    ]


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_above_debug_engines_have_no_trace(tmp_path: Path, level: LogLevel) -> None:
    assert frame_trace(configuration(tmp_path, level), Connection()) is None
