"""A broker that keeps 1 MiB of bodies, with an empty durable queue ``q``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.residency.acceptance.deep import Deep, deep_broker


@pytest.fixture
async def deep(tmp_path: Path) -> AsyncIterator[Deep]:
    async with deep_broker(tmp_path / "data") as running:
        await running.declare("q")
        yield running
