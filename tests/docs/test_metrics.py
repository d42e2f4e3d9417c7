"""The page on metrics names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from annulet import testing
from annulet.admin.resources.metrics import gather

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "metrics.md").read_text()


async def test_the_page_on_metrics_names_every_metric_of_the_broker_itself() -> None:
    async with testing.broker(http=False) as running:
        snapshot = await gather(running.broker)
    listed = set(re.findall(r"`(?:annulet)?_(\w+)[`{]", PAGE))
    for name in [*snapshot.gauges, *(f"{name}_total" for name in snapshot.counters)]:
        assert any(name == end or name.endswith(f"_{end}") for end in listed), name
