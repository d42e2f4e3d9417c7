"""The pictures of a run: a departures board, delays by hour, departures by month and hour, and the fate of the
messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from annulet.demo.report import CANCELLED, ON_TIME, board_cells, status_of
from annulet.demo.topology import ORIGINS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from annulet.demo.reconciliation import QueueAccount

DOTS_PER_INCH: Final = 110
BOARD_LINES: Final = 12
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
AIRPORTS: Final = {"EWR": "Newark", "JFK": "John F. Kennedy", "LGA": "LaGuardia"}
ORIGIN_COLOURS: Final = {"EWR": "#0072B2", "JFK": "#D55E00", "LGA": "#009E73"}
"""Okabe and Ito's palette, distinguishable with any colour vision."""
KEPT_COLOUR: Final = "#0072B2"
ACKNOWLEDGED_COLOUR: Final = "#009E73"
DROPPED_COLOUR: Final = "#BFC5CC"
BOARD_BACKGROUND: Final = "#15181C"
BOARD_COLOURS: Final = {ON_TIME: "#7CD67C", CANCELLED: "#FF6B5E"}
BOARD_LATE: Final = "#FFC94A"
DEPARTURES_LEAST: Final = 20
"""Departures a slot needs for its mean to be drawn; the few of the small hours would bend the scale."""


def board(axes: Axes, origin: str, flights: Sequence[Mapping[str, Any]]) -> None:
    """Draw the last departures of an origin as an airport's board."""
    axes.set_axis_off()
    axes.set_facecolor(BOARD_BACKGROUND)
    axes.add_patch(_rectangle(axes))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    step = 1 / (BOARD_LINES + 3)
    top = 1 - 1.1 * step
    axes.text(0.03, top, f"{origin}  {AIRPORTS[origin]}", color="white", weight="bold", fontsize=12, va="center")
    axes.text(0.97, top, f"board.{origin}, ring of 100", color="#9AA4AE", fontsize=8, va="center", ha="right")
    places = (0.03, 0.17, 0.29, 0.46, 0.57, 0.97)
    titles = ("Date", "Time", "Flight", "To", "Aircraft", "Status")
    _board_line(axes, places, titles, top - 1.2 * step, ["#9AA4AE"] * len(titles))
    for line, flight in enumerate(flights[: -BOARD_LINES - 1 : -1]):
        status = status_of(flight["dep_delay"])
        colours = ["#F2F2E9"] * 5 + [BOARD_COLOURS.get(status, BOARD_LATE)]
        _board_line(axes, places, (*board_cells(flight), status), top - (2.2 + line) * step, colours)


def _rectangle(axes: Axes) -> Any:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    return Rectangle((0, 0), 1, 1, transform=axes.transAxes, color=BOARD_BACKGROUND, zorder=-1)


def _board_line(
    axes: Axes, places: Sequence[float], cells: Sequence[str], height: float, colours: Sequence[str]
) -> None:
    for place, cell, colour in zip(places, cells, colours, strict=True):
        side = "right" if place > 0.9 else "left"
        axes.text(place, height, cell, color=colour, fontsize=8.5, family="monospace", va="center", ha=side)


def delays_by_hour(axes: Axes, delays: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw the mean departure delay of each origin by scheduled hour, as found in the queue ``delays``."""
    for origin in ORIGINS:
        slots = sorted(
            (values["hour"], values["delay_minutes"] / values["departures"])
            for values in delays.values()
            if values["origin"] == origin and values["departures"] >= DEPARTURES_LEAST
        )
        hours, means = [hour for hour, _ in slots], [mean for _, mean in slots]
        axes.plot(hours, means, marker="o", markersize=4, color=ORIGIN_COLOURS[origin], label=AIRPORTS[origin])
    axes.axhline(0, color="#888888", linewidth=0.8)
    axes.set_title("Delays grow through the day", loc="left", weight="bold")
    axes.set_xlabel("scheduled hour of departure")
    axes.set_ylabel("mean delay in minutes")
    axes.set_xticks(range(5, 24, 3))
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def departures_heat_map(axes: Axes, flights: pd.DataFrame) -> None:
    """Draw how many flights leave in each month and hour, as found in Parquet."""
    counts = flights.groupby(["month", "hour"]).size().unstack(fill_value=0)
    counts = counts.reindex(index=range(1, 13), columns=range(5, 24), fill_value=0)
    image = axes.imshow(counts.to_numpy(), aspect="auto", cmap="YlGnBu")
    axes.set_title("Departures by month and hour", loc="left", weight="bold")
    axes.set_xticks(range(0, 19, 3), [str(hour) for hour in range(5, 24, 3)])
    axes.set_yticks(range(12), MONTHS)
    axes.set_xlabel("scheduled hour of departure")
    axes.figure.colorbar(image, ax=axes, label="departures", pad=0.02)


def where_messages_went(axes: Axes, accounts: Sequence[QueueAccount]) -> None:
    """Draw for each queue which share of its messages was kept, acknowledged or replaced."""
    names = [account.name for account in accounts]
    left = [0.0] * len(accounts)
    series = (
        ("kept in the queue", KEPT_COLOUR, [account.kept for account in accounts]),
        ("acknowledged", ACKNOWLEDGED_COLOUR, [account.acknowledged for account in accounts]),
        ("replaced by newer ones", DROPPED_COLOUR, [sum(account.dropped.values()) for account in accounts]),
    )
    for label, colour, counts in series:
        shares = [100 * count / max(1, account.added) for count, account in zip(counts, accounts, strict=True)]
        axes.barh(names, shares, left=left, color=colour, label=label, height=0.68)
        left = [start + share for start, share in zip(left, shares, strict=True)]
    for line, account in enumerate(accounts):
        text = f"{account.added:,} added, {account.kept:,} kept"
        colour = "white" if account.acknowledged else "#222222"
        axes.text(98.5, line, text, va="center", ha="right", fontsize=8, color=colour)
    axes.set_title("Where every message went", loc="left", weight="bold")
    axes.set_xlabel("percent of the messages added")
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.16))


def save_all(
    folder: Path,
    boards: Mapping[str, Sequence[Mapping[str, Any]]],
    delays: Mapping[str, Mapping[str, Any]],
    archive: pd.DataFrame,
    accounts: Sequence[QueueAccount],
) -> list[Path]:
    """Save every picture and the overview of all into ``folder``; return their files."""
    files = [_save_boards(folder / "boards.png", boards)]
    singles: dict[str, Callable[[Axes], None]] = {
        "delays.png": lambda axes: delays_by_hour(axes, delays),
        "departures.png": lambda axes: departures_heat_map(axes, archive),
        "reconciliation.png": lambda axes: where_messages_went(axes, accounts),
    }
    for name, draw in singles.items():
        figure, axes = _figure(9, 5)
        draw(axes.item())
        files.append(_write(figure, folder / name))
    files.append(_save_overview(folder / "overview.png", boards, singles, len(archive)))
    return files


def save_small(
    folder: Path, boards: Mapping[str, Sequence[Mapping[str, Any]]], accounts: Sequence[QueueAccount]
) -> list[Path]:
    """Save the boards and where every message went; return their files."""
    figure, axes = _figure(9, 5)
    where_messages_went(axes.item(), accounts)
    return [_save_boards(folder / "boards.png", boards), _write(figure, folder / "reconciliation.png")]


def _save_boards(file: Path, boards: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    figure, grid = _figure(16, 4.8, columns=len(boards))
    for axes, (origin, flights) in zip(grid.flat, boards.items(), strict=True):
        board(axes, origin, flights)
    return _write(figure, file)


def _save_overview(
    file: Path,
    boards: Mapping[str, Sequence[Mapping[str, Any]]],
    singles: Mapping[str, Callable[[Axes], None]],
    departures: int,
) -> Path:
    """Save one picture with a board and the three plots."""
    figure, grid = _figure(15, 9.5, rows=2, columns=2)
    origin = ORIGINS[1]
    board(grid[0, 0], origin, boards[origin])
    for axes, draw in zip((grid[0, 1], grid[1, 0], grid[1, 1]), singles.values(), strict=True):
        draw(axes)
    figure.suptitle(f"{departures:,} departures through Annulet and Spark", weight="bold", fontsize=16)
    return _write(figure, file)


def _figure(width: float, height: float, *, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """Return a figure and the array of its axes. It belongs to no window system and is freed when forgotten."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _write(figure: Figure, file: Path) -> Path:
    figure.savefig(file, dpi=DOTS_PER_INCH)
    return file
