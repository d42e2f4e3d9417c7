"""NestJS's and rabbitmq-client's requests, which need direct reply-to: the tests themselves are in tests/node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.support import Peer

NODE = Path(__file__).resolve().parent.parent / "node"

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(not (NODE / "node_modules" / "@nestjs").is_dir(), reason="npm ci was not run in tests/node"),
]


def test_requests_of_node_clients(peer: Peer) -> None:
    test_file = NODE / "request.test.mjs"
    written = len(re.findall(r"^test\(", test_file.read_text(), re.MULTILINE))
    result = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(test_file)],
        env={**os.environ, "ANNULET_TEST_URL": peer.url}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    report = result.stdout + result.stderr
    assert result.returncode == 0, report
    assert f"# pass {written}" in report, report
