"""The page on metrics names what is served, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from annulet import testing
from annulet.admin.resources.metrics import BrokerCollector, exposition, gather

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "metrics.md").read_text()


async def served() -> set[str]:
    async with testing.broker(http=False) as running:
        snapshot = await gather(running.broker)
    text = exposition(snapshot, BrokerCollector(snapshot)).decode()
    return set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))


def documented(name: str) -> bool:
    """Return whether the page has the name, whole or as an end behind another name."""
    listed = set(re.findall(r"`(?:annulet)?_(\w+)[`{]", PAGE))
    return any(name == f"annulet_{end}" or name.endswith(f"_{end}") for end in listed)


async def test_the_page_names_every_metric() -> None:
    missing = set()
    for name in await served():
        of_queues = name.replace("annulet_vhost_", "annulet_queue_")  # `annulet_vhost_*`: sums of all queues
        if not any(documented(each) for each in (name, of_queues, f"{of_queues}_total")):
            missing.add(name)
    assert not missing


async def test_each_metric_of_the_page_is_served() -> None:
    names = await served()
    whole = set(re.findall(r"`(annulet_\w+)[`{]", PAGE))
    assert whole - names == set()
    ends = set(re.findall(r"`(_\w+)[`{]", PAGE))
    assert {end for end in ends if not any(name.endswith(end) for name in names)} == set()
