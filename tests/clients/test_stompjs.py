"""@stomp/stompjs of Node.js over WebSocket: the tests themselves are in tests/node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess

NODE = Path(__file__).resolve().parent.parent / "node"

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(not (NODE / "node_modules" / "@stomp").is_dir(), reason="npm ci was not run in tests/node"),
]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("stompjs") / "data") as process:
        yield process


def test_the_example_of_the_page(process: BrokerProcess) -> None:
    page = (NODE.parent.parent / "docs" / "stomp.md").read_text()
    (example,) = re.findall(r"^```javascript\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    browser = 'import { WebSocket } from "ws";\nglobalThis.WebSocket = WebSocket;\n'
    code = browser + example.replace("127.0.0.1:8161", f"127.0.0.1:{process.http_port}")
    command = ["node", "--input-type=module", "--eval", code]
    with subprocess.Popen(command, cwd=NODE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "hello\n"
        program.kill()


def test_stompjs(process: BrokerProcess) -> None:
    """Over ``/ws``; ``/stomp`` is the same route, see tests/admin/test_web_socket.py."""
    test_file = NODE / "stomp.test.mjs"
    written = len(re.findall(r"^test\(", test_file.read_text(), re.MULTILINE))
    result = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(test_file)],
        env={**os.environ, "ANNULET_TEST_WS": f"ws://127.0.0.1:{process.http_port}/ws"},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    report = result.stdout + result.stderr
    assert result.returncode == 0, f"{report}\n{process.log_end()}"
    passed = sum(int(count) for count in re.findall(r"^# pass (\d+)$", report, re.MULTILINE))
    assert passed == written, report
    assert "defect" not in process.log_end(100_000)
