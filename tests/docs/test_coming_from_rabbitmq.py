"""The page on RabbitMQ says of this broker what it does; RabbitMQ's column is measured by the benchmark."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from annulet import testing
from benchmarks.rabbitmq_differences import BEGIN, END, PROBES, TIMED, run_probes

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "coming-from-rabbitmq.md").read_text()
MEASURED = PAGE.partition(BEGIN)[2].partition(END)[0]


def documented() -> dict[str, str]:
    """Return what the page says of Annulet: the last column of the table, and the list of what is the same."""
    rows = dict(re.findall(r"^\| (.+?) \| .* \| (.+?) \|$", MEASURED, re.MULTILINE))
    same = dict(re.findall(r"^- (.+): (.+)$", MEASURED, re.MULTILINE))
    return {name: value for name, value in (rows | same).items() if name in PROBES}


async def test_each_input_has_the_outcome_that_the_page_says() -> None:
    said = documented()
    assert said.keys() == PROBES.keys()
    async with testing.broker(http=False) as running:
        port = running.broker.amqp_address[1]
        found = await asyncio.to_thread(run_probes, port, TIMED)
    assert found == {name: value for name, value in said.items() if name not in TIMED}
