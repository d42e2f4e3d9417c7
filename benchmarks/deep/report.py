"""The report of a run: a table, the figures as JSON, and pictures of memory, depth and rates over time."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.deep.outcome import MIB, Outcome
from benchmarks.deep.sampling import Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.deep.run import Run

DOTS_PER_INCH: Final = 110
MEMORY_COLOUR, DEPTH_COLOUR, DISK_COLOUR, IN_COLOUR, OUT_COLOUR = "#0072B2", "#D55E00", "#BFC5CC", "#009E73", "#CC79A7"
"""Okabe and Ito's palette: told apart with any colour vision."""


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as a Markdown table."""
    lines = ["| check | what | verdict | measured |", "| --- | --- | --- | --- |"]
    for outcome in outcomes:
        measured = outcome.text().replace("|", "\\|")
        lines.append(f"| {outcome.check} | {outcome.title} | {outcome.verdict} | {measured} |")
    return "\n".join(lines)


def write(run: Run, folder: Path) -> None:
    """Write report.md, report.json and a picture for each suite."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [draw(suite, samples, folder) for suite, samples in by_suite(run.samples).items()]
    build = "pure" if run.pure else "compiled"
    machine = f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}, {build}"
    text = [
        "# Deep backlogs: acceptance checks",
        f"{run.count:,} messages of 1 KiB, body budget {run.budget / MIB:.0f} MiB; {machine}.",
        table(run.outcomes),
        *[f"![{name}]({name}.png)" for name in pictures],
    ]
    (folder / "report.md").write_text("\n\n".join(text) + "\n")
    document: dict[str, Any] = {
        "count": run.count,
        "budget": run.budget,
        "machine": machine,
        "outcomes": [{**dataclasses.asdict(outcome), "verdict": outcome.verdict} for outcome in run.outcomes],
        "samples": [dataclasses.asdict(sample) for sample in run.samples if sample.whole],
        "stalls": {str(bound): count for bound, count in run.stalls.counts.items()},
    }
    (folder / "report.json").write_text(json.dumps(document, indent=1) + "\n")


def by_suite(samples: list[Sample]) -> dict[str, list[Sample]]:
    """Return the samples of each suite."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.suite, []).append(sample)
    return found


def draw(suite: str, samples: list[Sample], folder: Path) -> str:
    """Draw memory, depth and rates one below the other; return the picture's name."""
    import matplotlib as mpl  # noqa: PLC0415 - a second to import, and only here

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - the back end comes first

    figure, (memory, depth, rate) = plt.subplots(3, 1, figsize=(9, 8), sharex=True)
    start = samples[0].seconds
    memory.plot(
        [sample.seconds - start for sample in samples],
        [sample.resident / MIB for sample in samples],
        color=MEMORY_COLOUR,
    )
    memory.set_ylabel("resident set, MiB")
    memory.set_ylim(bottom=0)
    memory.set_title(suite, loc="left", weight="bold")
    whole = [sample for sample in samples if sample.whole]
    times = [sample.seconds - start for sample in whole]
    depth.fill_between(times, [sample.on_disk for sample in whole], color=DISK_COLOUR, label="on disk only")
    depth.plot(times, [sample.depth for sample in whole], color=DEPTH_COLOUR, label="waiting")
    depth.set_ylabel("messages")
    depth.legend(loc="upper right", frameon=False)
    rates(rate, whole, start)
    figure.tight_layout()
    figure.savefig(folder / f"{suite}.png", dpi=DOTS_PER_INCH)
    plt.close(figure)
    return suite


def rates(axes: Axes, samples: list[Sample], start: float) -> None:
    """Draw messages a second into and out of the queues; a restart sets the counters back and leaves a gap."""
    times, published, delivered = [], [], []
    for former, sample in pairwise(samples):
        seconds = sample.seconds - former.seconds
        times.append(sample.seconds - start)
        published.append(max(0.0, (sample.added - former.added) / seconds))
        delivered.append(max(0.0, (sample.delivered - former.delivered) / seconds))
    axes.plot(times, published, color=IN_COLOUR, label="published")
    axes.plot(times, delivered, color=OUT_COLOUR, label="delivered")
    axes.set_ylabel("messages/s")
    axes.set_xlabel("seconds")
    axes.legend(loc="upper right", frameon=False)
