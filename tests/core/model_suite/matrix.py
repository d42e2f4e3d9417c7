"""Writes docs/matrix.md from the tables the tests are parametrised from: ``python -m
tests.core.model_suite.matrix``.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from annulet.core.configuration.arguments import describe
from annulet.core.configuration.arguments.combinations import REFUSED
from tests.core.model_suite.compositions import compositions, compositions_of, refusal_of
from tests.core.model_suite.policies import AXES, EXAMPLES, TRAITS, Policy, compose

PAGE = Path(__file__).resolve().parents[3] / "docs" / "matrix.md"

AXIS_TITLES = {
    "order": "Order",
    "retention": "Retention",
    "dispatch": "Dispatch: eligible consumers",
    "consumers": "Dispatch: options of consumers",
    "flow": "Dispatch: limits of the flow",
    "time": "Time: time to live and schedule",
    "returns": "Time: returned messages",
}

HEAD = f"""# The matrix: every policy with every other

A queue is a composition of policies on four axes: order, retention, dispatch and time. Dispatch and time are split
here so that their policies can be combined too. For every pair of policies of different axes this page shows whether
a queue may have both, and that this was tested.

- **proven (N)**: N compositions of seven policies contain the pair; each runs {EXAMPLES} programs of random commands
  in `make test`, and a hundred new ones in `make soak`. After every command the queue is compared with an oracle, a
  list with a second implementation of the rules: the deliveries of each consumer and their order, the pending and
  scheduled messages and those in delivery, the reasons and targets of removals, whether publishers are blocked, and
  that every accepted message and body byte is present or was counted as removed for exactly one reason.
- **refused**: declaring such a queue is an error (AMQP 0-9-1: 406), and a test checks its text. The reasons are at
  the end.

The oracle is written from the rules, not from the queue's code. Where the rules left a question open, queue and
oracle were made to agree, and the oracle shows the decision. "Proven" means proven by test, for the programs that
ran.

The page is written from the tables that the tests run: `python -m tests.core.model_suite.matrix` rewrites it, and a
test fails when it is stale. The programs are in `tests/core/model_suite`, the oracle in `src/annulet/testing/oracle`. A
state machine, `tests/core/queue/test_queue_state_machine.py`, draws any seven policies together, so that triples and
more are tested too.
"""

INTERACTIONS = """## Interactions

This page covers interactions only as pairs. The page of each policy describes its effects beside other policies.
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
    parts = [HEAD, f"{count} compositions contain all pairs.\n", "## Policies\n"]
    parts += [policies_table(name) for name in AXES]
    parts += ["## Pairs\n", *(pairs_table(first, second) for first, second in combinations(AXES, 2))]
    return "\n".join([*parts, refusals(), INTERACTIONS])


if __name__ == "__main__":
    PAGE.write_text(render())
