"""The files for containers and systemd name settings that exist, and systemd takes the unit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from annulet.broker.settings.configuration import ConfigurationFile, Endpoint, load
from annulet.broker.settings.environment import Variables
from tests.broker_process import BrokerProcess

FOLDER = Path(__file__).resolve().parents[2] / "packaging"


def _text(name: str) -> str:
    return (FOLDER / name).read_text()


def _variables(text: str) -> dict[str, str]:
    """Return the settings a file gives, written NAME=VALUE or NAME: VALUE."""
    found = re.findall(r"^ *(?:ENV |Environment=|PATH=)?(ANNULET_[A-Z_]+)(?:=|: )(\S+)", text, re.MULTILINE)
    return dict(found)


def test_the_image_listens_outside_itself_and_keeps_its_data_in_the_volume() -> None:
    text = _text("Dockerfile")
    configuration = load(None, None, _variables(text))
    assert configuration.amqp == Endpoint("0.0.0.0", 5672)
    assert configuration.http == Endpoint("0.0.0.0", 8161)
    assert configuration.data_directory is not None
    assert f"VOLUME {configuration.data_directory}" in text
    assert "\nUSER annulet\n" in text


def test_compose_gives_settings_that_exist_and_its_secret_from_a_file() -> None:
    given = _variables(_text("compose.yaml"))
    assert given.pop("ANNULET_DEFAULT_PASSWORD_FILE") == "/run/secrets/password"
    document = Variables(given, ConfigurationFile).document
    assert document == {"default_user": "ops", "listeners": {"bulk": "0.0.0.0:8815"}}


def test_the_health_check_of_the_image_succeeds_only_when_clients_may_connect(tmp_path: Path) -> None:
    match = re.search(r'CMD \["python", "-c", "(.*)"\]', _text("Dockerfile"))
    assert match is not None
    with BrokerProcess(tmp_path / "data") as process:
        check = match[1].replace("127.0.0.1:8161", f"127.0.0.1:{process.http_port}")
        assert subprocess.run([sys.executable, "-c", check], timeout=60, check=False).returncode == 0
        process.terminate()
        stopped = subprocess.run([sys.executable, "-c", check], timeout=60, check=False, capture_output=True)
        assert stopped.returncode != 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing: install systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "annulet.service"
    unit.write_text(_text("annulet.service").replace("/opt/annulet/bin/annulet", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_gives_settings_that_exist() -> None:
    given = _variables(_text("annulet.service"))
    assert load(None, None, given).data_directory == Path("/var/lib/annulet")
