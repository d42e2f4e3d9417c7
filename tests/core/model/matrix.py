"""Writes docs/matrix.md from the tables the tests are parametrised from: ``python -m tests.core.model.matrix``."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from annulet.core.arguments import describe
from annulet.core.arguments.combinations import REFUSED
from tests.core.model.compositions import compositions, compositions_of, refusal_of
from tests.core.model.policies import AXES, EXAMPLES, TRAITS, Policy, compose

PAGE = Path(__file__).resolve().parents[3] / "docs" / "matrix.md"

AXIS_TITLES = {
    "order": "Order",
    "retention": "Retention",
    "dispatch": "Dispatch: who may have it",
    "consumers": "Dispatch: what consumers ask for",
    "flow": "Dispatch: when it may go on",
    "time": "Time: life and schedule",
    "returns": "Time: what comes back",
}

HEAD = f"""# The matrix: every policy with every other

A queue is a composition of policies on four axes: order, retention, dispatch and time. Dispatch and time are split
here so that what can be combined within them is combined. This page says of every policy of one axis beside every
policy of each other axis whether a queue may have both, and that this was tested.

- **proven (N)**: N compositions of seven policies contain the pair; each runs {EXAMPLES} programs of random commands
  in `make test`, and a hundred new ones in `make soak`. After every command the queue is compared with an oracle, a
  list and the rules written down once more: who got which message in which order, what is pending, scheduled and in
  delivery, what left for which reason and where it was sent, whether publishers are blocked, and that every message
  and every body byte that came in is present or was counted out for exactly one reason.
- **refused**: declaring such a queue is an error (AMQP 0-9-1: 406), and a test holds its text. The reasons are at
  the end.

The oracle is written from the rules, not from the queue's code. Where the rules left a question open, queue and
oracle were brought to agree, and the oracle says what was decided. "Proven" is proven by test: it holds for the
programs that ran.

The page is written from the tables that the tests run: `python -m tests.core.model.matrix` writes it anew, and a
test fails when it is stale. The programs are in `tests/core/model`, the oracle in `src/annulet/testing/oracle`. A
state machine, `tests/core/test_queue_state_machine.py`, draws any seven policies together, so that triples and more
are met too.
"""

INTERACTIONS = """## Interactions

This page is about nothing else. What happens when two policies meet is said on the page of either of them.
"""


def shown(chosen: Policy) -> str:
    """What a policy declares, by canonical argument, and what its messages or consumers do."""
    arguments = [f"`{name}={value}`" for name, value in describe(compose((chosen,))).items()]
    return ", ".join([*arguments, *(TRAITS[trait] for trait in sorted(chosen.traits))]) or "nothing"


def cell(pair: tuple[Policy, Policy]) -> str:
    return "refused" if refusal_of(pair) else f"proven ({len(compositions_of(pair))})"


def policies_table(name: str) -> str:
    rows = [f"| {chosen} | {shown(chosen)} |" for chosen in AXES[name]]
    return "\n".join([f"### {AXIS_TITLES[name]}", "", "| policy | declared |", "| --- | --- |", *rows, ""])


def pairs_table(first: str, second: str) -> str:
    """A table of two axes, the longer one downwards."""
    down, across = (first, second) if len(AXES[first]) >= len(AXES[second]) else (second, first)
    flipped = down != first
    lines = [f"### {AXIS_TITLES[first]} × {AXIS_TITLES[second]}", ""]
    lines += [f"| | {' | '.join(map(str, AXES[across]))} |", f"| --- |{' --- |' * len(AXES[across])}"]
    for row in AXES[down]:
        cells = [cell((column, row) if flipped else (row, column)) for column in AXES[across]]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def refusals() -> str:
    """Every combination that is refused, also those of one axis with itself."""
    rows = [
        f"| {one.identifier} | {', '.join(f'`{field}`' for field in one.fields)} | {one.reason} |" for one in REFUSED
    ]
    return "\n".join(["## Refused", "", "| rule | settings | reason and remedy |", "| --- | --- | --- |", *rows, ""])


def render() -> str:
    """Return the page."""
    count = len(compositions())
    parts = [HEAD, f"{count} compositions hold all pairs.\n", "## Policies\n"]
    parts += [policies_table(name) for name in AXES]
    parts += ["## Pairs\n", *(pairs_table(first, second) for first, second in combinations(AXES, 2))]
    return "\n".join([*parts, refusals(), INTERACTIONS])


if __name__ == "__main__":
    PAGE.write_text(render())
