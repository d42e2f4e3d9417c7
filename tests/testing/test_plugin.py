"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import annulet

SOURCE = Path(annulet.__file__).parents[1]

PLUGINS = ["-p", "pytest_annulet", "-p", "no:cacheprovider"]
SETTINGS = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"

TESTS = """
import pika
import pytest

URLS = set()


@pytest.fixture
def channel(annulet):
    connection = pika.BlockingConnection(pika.URLParameters(annulet.amqp_url))
    yield connection.channel()
    connection.close()


@pytest.mark.parametrize("number", range(3))
def test_each_test_has_an_empty_broker(annulet, channel, number, capfd):
    URLS.add(annulet.amqp_url)
    channel.queue_declare("q")
    annulet.require_none("q")
    channel.basic_publish("", "q", b"1")
    annulet.require_published("q", count=1)
    assert len(URLS) == 1
    assert capfd.readouterr().out == ""


async def test_an_asynchronous_test_has_one_too(annulet):
    annulet.settle()


@pytest.mark.annulet(heartbeat=7)
class TestOptions:
    def test_the_mark_of_the_class(self, annulet):
        assert annulet.configuration.heartbeat == 7

    @pytest.mark.annulet(heartbeat=9)
    def test_the_closest_mark_wins(self, annulet):
        assert annulet.configuration.heartbeat == 9


@pytest.mark.parametrize("number", range(2))
def test_the_broker_of_the_session_keeps_its_queues(annulet_session, number):
    with pika.BlockingConnection(pika.URLParameters(annulet_session.amqp_url)) as connection:
        assert connection.channel().queue_declare("kept").method.message_count == number
        connection.channel().basic_publish("", "kept", b"1")
"""


def run(path: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    (path / "test_it.py").write_text(tests)
    (path / "pytest.ini").write_text(SETTINGS)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGINS, *options, "test_it.py"],
        cwd=path, env={"PYTHONPATH": str(SOURCE), "COLUMNS": "200"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_fixtures_give_real_brokers(tmp_path: Path) -> None:
    result = run(tmp_path, TESTS, "--strict-markers")
    assert "8 passed" in result.stdout, result.stdout


def test_processes_of_xdist_have_brokers_of_their_own(tmp_path: Path) -> None:
    independent = TESTS.partition('@pytest.mark.parametrize("number", range(2))')[0]
    result = run(tmp_path, independent, "-n", "2")
    assert "6 passed" in result.stdout, result.stdout


def test_a_mark_with_an_argument_that_has_no_name_is_refused_in_one_line(tmp_path: Path) -> None:
    result = run(tmp_path, "import pytest\n@pytest.mark.annulet(True)\ndef test(annulet):\n    pass\n")
    assert "has the argument True; it takes names, as annulet(durable=True)" in result.stdout


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path, "import pytest\n@pytest.mark.annulet(hearbeat=1)\ndef test(annulet):\n    pass\n")
    assert "hearbeat" in result.stdout
    assert "did you mean 'heartbeat'" in result.stdout


def test_a_run_that_does_not_use_it_imports_no_broker(tmp_path: Path) -> None:
    script = (
        "import sys\ndef test():\n    assert 'pytest_annulet' in sys.modules\n    assert 'annulet' not in sys.modules\n"
    )
    result = run(tmp_path, script)
    assert "1 passed" in result.stdout, result.stdout


def test_a_broker_for_amqp_only_imports_neither_uvicorn_nor_arrow(tmp_path: Path) -> None:
    script = "import sys\ndef test(annulet):\n    assert not {'uvicorn', 'pyarrow', 'starlette'} & set(sys.modules)\n"
    result = run(tmp_path, script)
    assert "1 passed" in result.stdout, result.stdout


def test_the_package_announces_it_under_the_name_of_its_module() -> None:
    """Under another name pytest would refuse the same plugin given by ``-p`` as a second one."""
    document = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())
    assert document["project"]["entry-points"]["pytest11"] == {"pytest_annulet": "pytest_annulet"}
