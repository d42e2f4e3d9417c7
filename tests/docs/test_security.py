"""The security page works as written: its commands make certificates, its file starts a broker, its client logs in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from annulet.broker.limits import Limits
from tests.broker_process import BrokerProcess, free_ports

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()


def block(name: str) -> str:
    match = re.search(rf"<!-- test: {name} -->\s*```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None, name
    return match[1]


@pytest.mark.debian
def test_the_how_to_ends_with_a_client_that_is_logged_in(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    subprocess.run(["sh", "-e", "-c", block("shell")], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    amqps, https = free_ports(2)
    text = block("configuration").replace("5671", str(amqps)).replace("8162", str(https))
    for name in ("broker.pem", "broker.key", "authority.pem"):
        text = text.replace(f'"{name}"', f'"{tmp_path / name}"')
    file = tmp_path / "annulet.toml"
    file.write_text(text)
    with BrokerProcess(None, "--config", str(file), log_file=tmp_path / "broker.log") as process:
        code = block("client").replace("5671", str(amqps))
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=60)
        process.wait_for_log("user=guest")


def test_every_limit_is_in_the_table_with_its_default() -> None:
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    defaults = {
        name: default.replace(" ", "")
        for names, *rest in rows
        if len(rest) == 5
        for name, default in zip(
            re.findall(r"`(\w+)`", names), rest[1].partition(":")[0].replace(", ", ",").split(","), strict=False
        )
    }
    for name in Limits.__struct_fields__:
        assert float(defaults[name]) == getattr(Limits(), name), name
