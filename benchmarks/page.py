"""The part of docs/performance.md that ``make bench`` writes: tables, targets, and the plot beside it.

What was tried for a load that misses its target, and what stands in the way, is kept by hand in benchmarks/rows.toml.
``python -m benchmarks.page bench-report/figures.json`` writes the part anew from the figures of an earlier run.
"""

from __future__ import annotations

import json
import statistics
import textwrap
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.brokers import ROOT
from benchmarks.report import REFERENCE, Summary, cell, generator_limits
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.targets import COMPILED, LAZY, PURE, TARGETS, Target

PAGE: Final = ROOT / "docs" / "performance.md"
BEGIN: Final = "<!-- bench: begin -->"
END: Final = "<!-- bench: end -->"
ROWS: Final = Path(__file__).parent / "rows.toml"
ALWAYS: Final = "NATS, always synced"
HEADINGS: Final = {REFERENCE: "RabbitMQ", PURE: "Annulet, pure Python", COMPILED: "Annulet, compiled",
                   LAZY: "NATS, synced every 2 minutes", ALWAYS: "NATS, `sync_interval: always`"}  # fmt: skip
BUSY_CORES: Final = 0.1
SPOILED_CORES: Final = 0.5
"""Other processes that use more than this share of a core are mentioned, and that their load spoils the rates."""

WIDTH: Final = 130

LEGEND: Final = (
    "`>`: the load generator used its core fully, so that the broker may be faster. ✓ and ✗: the target is met or "
    "missed. Factors compare with RabbitMQ: of the rate, and of the processor time."
)
JETSTREAM: Final = (
    "A publish is answered, a delivery is acknowledged. Annulet answers when the disk has synced the message, NATS in "
    "its default setting before."
)
BAR: Final = 0.38


class PageError(Exception):
    """The page has no marks, or the rows no text."""


def renew(page: Path, document: dict[str, Any]) -> None:
    """Replace what is between the marks of a page. Raises PageError without them."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise PageError(f"{page} has no marks {BEGIN} and {END}; write them where the tables belong")
    page.write_text(f"{before}{BEGIN}\n\n{render(document)}\n\n{END}{after}")
    draw(document["summary"], page.parent / "images" / "rates.svg")


def render(document: dict[str, Any]) -> str:
    """Return the tables and the texts of missed targets."""
    summary: Summary = document["summary"]
    ordinary = [one for one in SCENARIOS if not one.slow]
    stored = [one for one in ordinary if one.nats is not None]
    slow = [one for one in SCENARIOS if one.slow]
    parts = [
        conditions(document),
        table(ordinary, [REFERENCE, PURE, COMPILED], summary, targets=True),
        LEGEND,
        "### Beside JetStream",
        JETSTREAM,
        table(stored, [COMPILED, LAZY, ALWAYS], summary),
        f"### A disk whose syncs take {document['delay_ms']:g} ms longer",
        "strace delays each sync of the process by that time.",
        table(slow, [REFERENCE, PURE, COMPILED, LAZY, ALWAYS], summary),
        "### Targets that are missed",
        missed(summary, texts()),
    ]
    return "\n\n".join(part if part.startswith("|") else wrapped(part) for part in parts)


def wrapped(text: str) -> str:
    """Break the lines of paragraphs and lists as the other pages have them."""
    lines = []
    for line in text.splitlines():
        indent = "  " if line.startswith("- ") else ""
        lines += textwrap.wrap(
            line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


def conditions(document: dict[str, Any]) -> str:
    """Say on which machine, how often and beside what it was measured."""
    machine, summary = document["machine"], document["summary"]
    foreign = [row["foreign"] for rows in summary.values() for row in rows.values() if row["foreign"] is not None]
    busy = statistics.median(foreign) if foreign else 0.0
    beside = f"; other processes used {busy:.1f} cores meanwhile (median of all runs)" if busy > BUSY_CORES else ""
    beside += ", so that rates and latencies are far from those of a free machine" if busy > SPOILED_CORES else ""
    scale = "" if document["scale"] == 1 else f", {document['scale']:g} of the messages"
    return (
        f"Made by `make bench` on {document['date']} UTC: {machine['cores']} virtual cores, CPython "
        f"{machine['python']}, {machine['system']}; a sync of one page took {document['sync_ms']} ms. "
        f"Medians of {document['rounds']} rounds{scale}, bodies of 1 KiB unless stated{beside}."
    )


def table(scenarios: list[Scenario], brokers: list[str], summary: Summary, *, targets: bool = False) -> str:
    """Return a Markdown table of loads and brokers; loads without any figure are left out."""
    brokers = [broker for broker in brokers if any(broker in summary.get(one.name, {}) for one in scenarios)]
    if not brokers:
        return "Not measured."
    headings = ["load", *(HEADINGS[broker] for broker in brokers), *(["target"] if targets else [])]
    lines = [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}"]
    for one in scenarios:
        rows = summary.get(one.name, {})
        if rows:
            cells = [figures(one, rows[broker], broker) if broker in rows else "–" for broker in brokers]
            verdicts = [verdicts_of(one.name, summary)] if targets else []
            lines.append(f"| {' | '.join([one.title, *cells, *verdicts])} |")
    return "\n".join(lines)


def figures(scenario: Scenario, row: dict[str, float | None], broker: str) -> str:
    """Return a broker's figures under a load."""
    cpu = f"{cell(row['cpu'], ',.1f')} µs"
    if scenario.paced:
        text = f"{cpu}; p50 {cell(row['p50'])}, p99 {cell(row['p99'])} µs"
    else:
        text = f"{'>' if generator_limits(row) else ''}{cell(row['rate'])}/s, {cpu}"
    if scenario.name == "backlog" and row["written"]:
        text += f", {row['written']:.2f} B written a byte"
    if broker == REFERENCE or row["rate_ratio"] is None or row["cpu_ratio"] is None:
        return text
    rate = "" if scenario.paced else f"{row['rate_ratio']:.1f} ×, "
    return f"{text} ({rate}1/{row['cpu_ratio']:.1f})"


def verdicts_of(load: str, summary: Summary) -> str:
    """Return a load's targets, each with its mark."""
    marks = {True: " ✓", False: " ✗", None: ""}
    told = [
        f"{'pure: ' if target.broker == PURE else ''}{target.text(target.bound)}{marks[target.met(summary)]}"
        for target in TARGETS
        if target.load == load
    ]
    return "; ".join(told) or "–"


def texts() -> dict[str, dict[str, str]]:
    """Return what is kept by hand of each load: ``tried`` and ``obstacle``."""
    rows: dict[str, dict[str, str]] = tomllib.loads(ROWS.read_text())
    return rows


def missed(summary: Summary, rows: dict[str, dict[str, str]]) -> str:
    """Return a paragraph for each load that misses a target: what was reached, tried, and stands in the way."""
    paragraphs = []
    for one in SCENARIOS:
        short = [target for target in TARGETS if target.load == one.name and target.met(summary) is False]
        if short:
            row = rows[text_of(one.name, short)]
            title = f"slow disk, {one.title}" if one.slow else one.title
            reached = "; ".join(reached_by(target, summary) for target in short)
            paragraphs.append(f"**{title}**: {reached}.\n\n- Tried: {row['tried']}\n- In the way: {row['obstacle']}")
    return "\n\n".join(paragraphs) or "None."


def text_of(load: str, short: list[Target]) -> str:
    """Return the row of the texts for missed targets: the pure build has its own where it alone misses."""
    pure_only = all(target.broker == PURE for target in short)
    return f"{load}-pure" if pure_only else load


def reached_by(target: Target, summary: Summary) -> str:
    """Say what a missed target is short of."""
    value = target.reached(summary)
    form = "pure Python, " if target.broker == PURE else ""
    return f"{form}{target.text(value or 0.0)} instead of {target.text(target.bound)}"


def draw(summary: Summary, path: Path) -> str:
    """Draw the factors over RabbitMQ's rates; return what to tell of it. Needs matplotlib."""
    if find_spec("matplotlib") is None:
        return "no plot: matplotlib is not installed"
    import matplotlib as mpl  # noqa: PLC0415 - only with matplotlib
    from matplotlib.figure import Figure  # noqa: PLC0415

    factors = [(one, [summary.get(one.name, {}).get(broker, {}).get("rate_ratio") for broker in (PURE, COMPILED)])
               for one in SCENARIOS if not one.paced]  # fmt: skip
    factors = [(one, values) for one, values in factors if any(values)]
    if not factors:
        return "no plot: nothing to compare with RabbitMQ"
    figure = Figure(figsize=(9, 1.2 + 0.42 * len(factors)), layout="constrained")
    axes = figure.subplots()
    for position, (broker, colour) in enumerate(((PURE, "#56B4E9"), (COMPILED, "#0072B2"))):
        places = [place + (position - 0.5) * BAR for place in range(len(factors))]
        axes.barh(places, [values[position] or 0.0 for _, values in factors], BAR, label=HEADINGS[broker], color=colour)
    axes.axvline(1.0, color="#D55E00", label="RabbitMQ")
    labels = [f"slow disk: {one.title}" if one.slow else one.title for one, _ in factors]
    axes.set_yticks(range(len(factors)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("times the rate of RabbitMQ")
    axes.legend(loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "annulet", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
    return str(path)


@click.command()
@click.argument("figures_file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), default=PAGE, help="docs/performance.md.")
def main(figures_file: Path, page: Path) -> None:
    """Write the tables anew from the figures of an earlier run."""
    renew(page, json.loads(figures_file.read_text()))


if __name__ == "__main__":
    main()
