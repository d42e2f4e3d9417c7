from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.limited_log import LINES_PER_SECOND, LimitedLog


class Lines:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.now = 5.0

    def warning(self, event: str, **values: Any) -> None:
        self.lines.append({"event": event, **values})


@pytest.mark.parametrize(
    ("events", "lines"),
    [(LINES_PER_SECOND - 1, LINES_PER_SECOND - 1), (LINES_PER_SECOND, LINES_PER_SECOND), (50, LINES_PER_SECOND)],
)
def test_so_many_lines_a_second_and_the_rest_is_counted(events: int, lines: int) -> None:
    target = Lines()
    log = LimitedLog(target, clock=lambda: target.now)
    for number in range(events):
        log.warning("refused", number=number)
    assert [line["number"] for line in target.lines] == list(range(lines))
    assert log.left_out == events - lines
    target.now += 1
    log.warning("refused", number=-1)
    assert target.lines[-1].get("left_out", 0) == events - lines
    assert log.left_out == 0
    log.warning("refused", number=-2)
    assert "left_out" not in target.lines[-1], "told once"
