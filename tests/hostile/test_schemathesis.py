"""Schemathesis asks a broker what its OpenAPI allows and forbids, and finds nothing.

Both runs have a fixed number of cases for each operation, and no limit of time: each operation is reached. The usual
run has a fixed seed; ``make soak`` runs all phases with a new seed.
``ANNULET_SCHEMATHESIS_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
from pathlib import Path

import pytest

from annulet import testing
from annulet.admin.resources.routes import document
from annulet.broker.broker import Broker
from annulet.broker.settings.limits import Limits

SEED = 32
CASES = 1
"""Random cases of an operation in the usual run, and as many with each of its checks: 600 requests in 30 s."""

SOAK_CASES = 100
TIMEOUT_SECONDS = 300
SOAK_TIMEOUT_SECONDS = 7200
"""Only for a run that hangs."""

VHOST = "web"  # its name needs no escape: schemathesis writes a slash in a path unescaped

CONFIGURATION = f"""
[parameters]
"path.vhost" = "{VHOST}"
"path.queue" = "shop"
"path.exchange" = "shop"
"query.samples" = "1" # a stream has no end else

[phases.stateful]
enabled = false # the description has no links

[checks.positive_data_acceptance]
enabled = false # names, selectors and arguments have grammars that no JSON schema says
"""


def prepare(broker: Broker) -> None:
    """Make objects that requests can find."""
    broker.virtual_hosts.put(VHOST, "", ())
    host = broker.hosts[VHOST]
    arguments = {"x-group-mode": "sticky", "x-group-key": "team"}
    host.declare_queue("shop", now=1, owner=None, durable=False, arguments=arguments)
    host.declare_exchange("shop", "topic")


async def run(directory: Path, seed: int, phases: str, cases: int) -> tuple[int, str]:
    """Run schemathesis over all operations; return its exit code and what it wrote."""
    configuration = directory / "schemathesis.toml"
    configuration.write_text(f"seed = {seed}\n[generation]\nmax-examples = {cases}\n{CONFIGURATION}")
    async with testing.broker(limits=Limits(login_delay_first=0)) as running:
        prepare(running.broker)
        program = Path(sys.executable).with_name("st")
        process = await asyncio.create_subprocess_exec(
            program,
            f"--config-file={configuration}",
            "run",
            f"{running.http_url}/api/v1/openapi.json",
            "--auth=guest:guest",
            f"--phases={phases}",
            "--no-color",
            cwd=directory,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode is not None
    return process.returncode, output.decode()


def operations() -> int:
    """Return how many operations the description has but for its own, which schemathesis has asked for already."""
    return sum(len(path) for path in json.loads(document())["paths"].values()) - 1


def reached(output: str) -> tuple[int, int]:
    """Return how many operations a run says that it chose, and tested."""
    found = re.search(r"Selected: ([0-9]+)/[0-9]+\s+Tested: ([0-9]+)", output)
    assert found is not None, "schemathesis does not say which operations it tested"
    return int(found[1]), int(found[2])


@pytest.mark.timeout(TIMEOUT_SECONDS)
async def test_a_bounded_run_finds_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("ANNULET_SCHEMATHESIS_SEED", SEED))
    print(f"ANNULET_SCHEMATHESIS_SEED={seed}")
    code, output = await run(tmp_path, seed, "examples,fuzzing", CASES)
    print(output)
    assert code == 0
    assert reached(output) == (operations(), operations())


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_SECONDS)
async def test_a_long_run_finds_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("ANNULET_SCHEMATHESIS_SEED", random.randrange(1 << 30)))
    print(f"ANNULET_SCHEMATHESIS_SEED={seed}")
    code, output = await run(tmp_path, seed, "examples,coverage,fuzzing", SOAK_CASES)
    print(output)
    assert code == 0
    assert reached(output) == (operations(), operations())
