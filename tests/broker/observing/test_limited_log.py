from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.observing.limited_log import ERROR_CHARACTERS_MAX, LINES_PER_SECOND, LimitedLog


class Lines:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.now = 5.0

    def warning(self, event: str, **values: Any) -> None:
        self.lines.append({"event": event, **values})

    error = warning


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


def test_a_defect_is_one_line_with_the_places_it_came_through() -> None:
    def inner() -> None:
        raise ZeroDivisionError("x" * 1000)

    target = Lines()
    log = LimitedLog(target, lines_per_second=1, clock=lambda: target.now)
    for _ in range(2):
        try:
            inner()
        except ZeroDivisionError as error:
            log.defect("broken", error, peer="a")
    (line,) = target.lines
    assert len(line["error"]) == ERROR_CHARACTERS_MAX
    innermost, outer = line["place"].split(" < ")
    assert innermost.endswith(" inner")
    assert outer.endswith(" test_a_defect_is_one_line_with_the_places_it_came_through")
    assert log.left_out == 1


def test_a_defect_without_an_exception_has_no_place() -> None:
    target = Lines()
    LimitedLog(target).defect("broken", None)
    assert target.lines == [{"event": "broken"}]
