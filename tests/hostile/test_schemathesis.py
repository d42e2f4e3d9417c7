"""Schemathesis asks a broker what its OpenAPI allows and forbids, and finds nothing.

The usual run has a fixed seed and ends after a time; ``make soak`` runs all phases with a new seed.
``ANNULET_SCHEMATHESIS_SEED`` repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.settings.limits import Limits

SEED = 32
SECONDS = 25
"""Of the usual run, after which it begins no further request."""

SOAK_SECONDS = 1500
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


async def run(directory: Path, seed: int, seconds: int, phases: str, examples: int) -> tuple[int, str]:
    """Run schemathesis; return its exit code and what it wrote."""
    configuration = directory / "schemathesis.toml"
    configuration.write_text(f"seed = {seed}\n[generation]\nmax-examples = {examples}\n{CONFIGURATION}")
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
            f"--max-time={seconds}",
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


@pytest.mark.timeout(SECONDS + 300)  # the rest is the start of a program beside the parts of the suite
async def test_a_bounded_run_finds_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("ANNULET_SCHEMATHESIS_SEED", SEED))
    print(f"ANNULET_SCHEMATHESIS_SEED={seed}")
    code, output = await run(tmp_path, seed, SECONDS, "examples,fuzzing", 3)
    print(output)
    assert code == 0
    assert "selected" in output


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 120)
async def test_a_long_run_finds_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("ANNULET_SCHEMATHESIS_SEED", random.randrange(1 << 30)))
    print(f"ANNULET_SCHEMATHESIS_SEED={seed}")
    code, output = await run(tmp_path, seed, SOAK_SECONDS, "examples,coverage,fuzzing", 100)
    print(output)
    assert code == 0
