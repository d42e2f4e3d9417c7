"""Azure's client uamqp, as Debian has it: its senders ask for receiver-settle-mode second and wait for first."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from annulet.demo.ports import free_ports
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.clients.amqp10 import DEBIAN_PYTHON

PROGRAM = Path(__file__).resolve().parent / "uamqp_program.py"
PATIENCE_SECONDS = 60

pytestmark = [
    pytest.mark.debian,
    pytest.mark.skipif(
        not Path("/usr/lib/python3/dist-packages/uamqp").is_dir(), reason="python3-uamqp is not installed"
    ),
]


def test_a_sender_is_told_of_each_message_once(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    (port,) = free_ports(1)
    file = tmp_path / "annulet.toml"
    file.write_text(
        f'[listeners]\namqps = "127.0.0.1:{port}"\n'
        f'[tls]\ncertificate = "{certificates.certificate}"\nkey = "{certificates.key}"\n'
    )
    with BrokerProcess(None, "--config", str(file), log_file=tmp_path / "broker.log"):
        ended = subprocess.run(
            [DEBIAN_PYTHON, str(PROGRAM), str(port), str(certificates.authority_file), "uamqp"],
            capture_output=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
    told = json.loads(ended.stdout)
    assert told["states"] == ["SendComplete"] * 3
    assert told["received"] == ["0", "1", "2"]
