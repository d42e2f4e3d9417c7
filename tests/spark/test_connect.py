"""Queues through Spark Connect: the classes run in the server, the client only names the format."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.spark.test_exactly_once import World


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_connect_client_reads_writes_streams_applies_rules_and_ends_leases(tmp_path: Path) -> None:
    for package in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(package, reason="Spark Connect needs grpcio, grpcio-status and zstandard")
    with BrokerProcess(tmp_path / "data", bulk=True) as broker:
        world = World(tmp_path, broker)
        world.publish(0)
        command = [sys.executable, str(Path(__file__).with_name("connect_driver.py")), broker.bulk_url]
        path = os.pathsep.join([str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [*command, str(tmp_path / "checkpoint")],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert done.stdout.splitlines() == [
            "read 100 1",
            "streamed True",
            "error True",
            "ring [97, 98, 99]",
            "replayed 100",
            "changes True",
            "left [97, 98, 99]",
            "judged True",
            "leases connect judge",
            "leases connect",
        ]
        # The odd ones were rejected, and are gone without a target for dead letters; the others were acknowledged, so
        # that the lease had nothing to give back.
        assert world.bodies("in") == []
        assert world.bodies("out") == []
