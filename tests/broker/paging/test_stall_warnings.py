"""What the pager says of queues that the disk gives nothing."""

from __future__ import annotations

from structlog.testing import capture_logs

from annulet.broker.paging.stall_warnings import STALL_LOG_MILLISECONDS, StallWarnings
from tests.residency.doubles import durable_queue


def test_a_stalled_queue_is_in_the_log_once_a_minute() -> None:
    warnings = StallWarnings()
    queue, other = durable_queue(), durable_queue()
    with capture_logs() as logs:
        for now in range(0, STALL_LOG_MILLISECONDS + 1, 250):
            warnings.refused(queue, now)
        warnings.refused(other, now)
        warnings.forget(queue)
        warnings.refused(queue, now)
    assert [line["refusals"] for line in logs] == [1, STALL_LOG_MILLISECONDS // 250, 1, 1]
