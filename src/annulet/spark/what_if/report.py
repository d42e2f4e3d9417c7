"""Results as rows of tables and as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from annulet.spark.what_if.running import moment
from annulet.spark.what_if.settings import Setting, names_of
from annulet.spark.what_if.simulation import QUANTILES, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame

LINES_MAX: Final = 8
"""Settings drawn in one picture of depths; more lines cannot be distinguished."""
DOTS_PER_INCH: Final = 110
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
"""Okabe and Ito's palette, distinguishable with any colour vision."""


def rows_of(settings: Sequence[Setting], results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return a row for each setting: the varied names, then the results. Times in milliseconds."""
    names = list(names_of(settings))
    reasons = sorted({reason for result in results for reason in result.losses})
    rows = []
    for setting, result in zip(settings, results, strict=True):
        described = setting.described()
        rows.append(
            {
                **{name: described.get(name) for name in names},
                "published": result.published,
                "delivered": result.delivered,
                "waiting": result.waiting,
                **{f"lost {reason}": result.losses.get(reason, 0) for reason in reasons},
                "loss %": round(100 * result.loss, 3),
                **{f"dwell {name} ms": result.dwell.get(name) for name in QUANTILES},
                "depth": result.depth_max,
                "held back": result.held_back,
                "busy %": round(100 * result.busy, 1),
            }
        )
    return rows


def starvation_rows(settings: Sequence[Setting], results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return a row for each setting and priority: longest wait and losses."""
    names = list(names_of(settings))
    return [
        {
            **{name: setting.described().get(name) for name in names},
            "priority": row.priority,
            "published": row.published,
            "delivered": row.delivered,
            "lost": row.lost,
            "longest wait ms": row.longest_wait,
        }
        for setting, result in zip(settings, results, strict=True)
        for row in result.priorities
    ]


def document_of(settings: Sequence[Setting], results: Sequence[Result]) -> dict[str, Any]:
    """Return everything as one JSON object; the console draws it."""
    return {
        "settings": rows_of(settings, results),
        "priorities": starvation_rows(settings, results),
        "depth": [result.depth for result in results],
    }


def label_of(setting: Setting, names: Sequence[str]) -> str:
    """Return a setting in a few words."""
    described = setting.described()
    return ", ".join(f"{name.removeprefix('x-')} {described[name]}" for name in names if name in described)


def save_pictures(folder: Path, settings: Sequence[Setting], results: Sequence[Result]) -> list[Path]:
    """Save depth over time, loss and dwell as PNG; return the files. Needs matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, draw in {"depth.png": draw_depth, "loss.png": draw_loss, "dwell.png": draw_dwell}.items():
        figure = Figure(figsize=(10, 5), layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        draw(figure.subplots(), settings, results)
        figure.savefig(folder / name, dpi=DOTS_PER_INCH)
        files.append(folder / name)
    return files


def draw_depth(axes: Axes, settings: Sequence[Setting], results: Sequence[Result]) -> None:
    """Draw how many messages waited over time, of the first LINES_MAX settings."""
    names = list(names_of(settings))
    pairs = list(zip(settings, results, strict=True))[:LINES_MAX]
    for number, (setting, result) in enumerate(pairs):
        times: list[Any] = [moment(at) for at, _ in result.depth]
        depths = [depth for _, depth in result.depth]
        axes.plot(times, depths, color=COLOURS[number % len(COLOURS)], label=label_of(setting, names), linewidth=1.2)
    left_out = len(settings) - len(pairs)
    title = "Messages waiting" + (f" (first {LINES_MAX} of {len(settings)} settings)" if left_out else "")
    axes.set_title(title, loc="left", weight="bold")
    axes.set_ylabel("messages")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def draw_loss(axes: Axes, settings: Sequence[Setting], results: Sequence[Result]) -> None:
    """Draw the share of messages lost by reason, a bar for each setting."""
    labels = [label_of(setting, list(names_of(settings))) for setting in settings]
    left = [0.0] * len(settings)
    for number, reason in enumerate(sorted({reason for result in results for reason in result.losses})):
        shares = [100 * result.losses.get(reason, 0) / max(1, result.published) for result in results]
        axes.barh(labels, shares, left=left, color=COLOURS[number % len(COLOURS)], label=reason)
        left = [start + share for start, share in zip(left, shares, strict=True)]
    if not any(left):
        axes.barh(labels, left)
    axes.set_title("Lost, by reason", loc="left", weight="bold")
    axes.set_xlabel("percent of the messages published")
    axes.invert_yaxis()
    if any(left):
        axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def draw_dwell(axes: Axes, settings: Sequence[Setting], results: Sequence[Result]) -> None:
    """Draw quantiles of the time from acceptance to delivery, a line for each quantile over the settings."""
    labels = [label_of(setting, list(names_of(settings))) for setting in settings]
    for number, quantile in enumerate(QUANTILES):
        values = [result.dwell.get(quantile, 0.0) / 1000 for result in results]
        axes.plot(labels, values, marker="o", color=COLOURS[number], label=quantile)
    axes.set_title("Time from acceptance to delivery", loc="left", weight="bold")
    axes.set_ylabel("seconds")
    axes.tick_params(axis="x", labelrotation=30)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def what_happened(messages: DataFrame) -> list[dict[str, Any]]:
    """Return a row for each queue of archived messages: number, sizes, rate, returns."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    second = f.date_trunc("second", "enqueued_at")
    by_second = messages.groupBy("queue", second.alias("second")).agg(f.count("*").alias("messages"))
    peaks = by_second.groupBy("queue").agg(f.max("messages").alias("peak a second"))
    size = f.length("body")
    totals = messages.groupBy("queue").agg(
        f.count("*").alias("messages"),
        f.sum(size).alias("bytes"),
        f.percentile_approx(size, 0.5).alias("size p50"),
        f.percentile_approx(size, 0.99).alias("size p99"),
        f.unix_millis(f.min("enqueued_at")).alias("first"),
        f.unix_millis(f.max("enqueued_at")).alias("last"),
        f.count(f.when(f.col("delivery_count") > 0, 1)).alias("came back"),
        f.count_distinct("priority").alias("priorities"),
        f.count_distinct("group_id").alias("groups"),
    )
    rows = [row.asDict() for row in totals.join(peaks, "queue").orderBy("queue").collect()]
    # As times they would be in the zone of this process, which is neither theirs nor the session's.
    return [{**row, "first": moment(row["first"]), "last": moment(row["last"])} for row in rows]


def table_text(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the cells of rows as text, the names first; numbers with thousands separated, nothing as a dash."""
    if not rows:
        return []
    return [list(rows[0]), *[[_cell(value) for value in row.values()] for row in rows]]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.10g}" if isinstance(value, float) else f"{value:,}"
