"""@stomp/stompjs of Node.js over WebSocket: the tests themselves are in tests/node."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.clients.node_suite import NODE, needs, run_file

pytestmark = needs("@stomp")


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
    """Over ``/ws``; ``/stomp`` is the same route, see tests/admin/listening/test_web_socket.py."""
    run_file("stomp.test.mjs", {"ANNULET_TEST_WS": f"ws://127.0.0.1:{process.http_port}/ws"})
    assert "defect" not in process.log_end(100_000)
