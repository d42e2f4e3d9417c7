from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from annulet.demo import expected, plots
from annulet.demo.reconciliation import QueueAccount
from annulet.demo.topology import ORIGINS

ACCOUNTS = [
    QueueAccount("board.EWR", "ring", 1000, 100, 0, 0, {"replaced-ring": 900}, 900),
    QueueAccount("archive", "FIFO", 1000, 0, 0, 1000, {}, 0),
    QueueAccount("delays", "last value", 0, 0, 0, 0, {}, 0),
]


def boards_of(frame: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    plain = frame.astype({"dep_delay": "float64"})
    return {origin: plain[plain["origin"] == origin].to_dict("records") for origin in ORIGINS}


def test_a_small_run_has_two_pictures(frame: pd.DataFrame, tmp_path: Path) -> None:
    files = plots.save_small(tmp_path, boards_of(frame), ACCOUNTS)

    assert [file.name for file in files] == ["boards.png", "reconciliation.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


def test_all_pictures_are_saved_and_small(frame: pd.DataFrame, tmp_path: Path) -> None:
    boards = boards_of(frame)

    files = plots.save_all(tmp_path, boards, expected.delays(frame), frame, ACCOUNTS)

    assert [file.name for file in files] == [
        "boards.png", "delays.png", "departures.png", "reconciliation.png", "overview.png",
    ]  # fmt: skip
    for file in files:
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size < 300_000


def test_shares_of_a_queue_add_up_to_everything() -> None:
    axes = Figure().subplots()

    plots.where_messages_went(axes, ACCOUNTS)

    widths = [[patch.get_width() for patch in container] for container in axes.containers]
    assert [sum(shares) for shares in zip(*widths, strict=True)] == [100, 100, 0]
    assert [round(shares[0]) for shares in widths] == [10, 0, 90]


def test_hours_with_few_departures_are_not_drawn() -> None:
    axes = Figure().subplots()
    slot = {"origin": "EWR", "hour": 6, "departures": plots.DEPARTURES_LEAST, "delay_minutes": 40}
    rare = {"origin": "EWR", "hour": 1, "departures": plots.DEPARTURES_LEAST - 1, "delay_minutes": 900}

    plots.delays_by_hour(axes, {"EWR-06": slot, "EWR-01": rare})

    newark = next(line for line in axes.get_lines() if line.get_label() == "Newark")
    assert list(newark.get_xdata()) == [6]
    assert list(newark.get_ydata()) == [2]


def test_heat_map_has_every_month_and_hour(frame: pd.DataFrame) -> None:
    axes = Figure().subplots()

    plots.departures_heat_map(axes, frame)

    counts = axes.images[0].get_array()
    assert counts.shape == (12, 19)
    assert counts.sum() == len(frame)
    assert counts[0, 1] == 3  # January, six o'clock


def test_board_shows_the_latest_departure_first(frame: pd.DataFrame) -> None:
    axes = Figure().subplots()

    plots.board(axes, "EWR", frame[frame["origin"] == "EWR"].to_dict("records"))

    texts = [text.get_text() for text in axes.texts]
    assert texts.index("14 min late") < texts.index("20 min late") < texts.index("on time")
