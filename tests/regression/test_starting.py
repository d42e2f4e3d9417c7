"""D33: what an operator writes in a configuration and on the command line means what it says."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands
from pika import spec
from structlog.testing import capture_logs

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.settings.configuration import ConfigurationError, Endpoint, StartError, load
from annulet.core.base.errors import InvalidArgument
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer
from tests.broker.conftest import leave
from tests.broker_process import STOP_SECONDS, BrokerProcess
from tests.clients.raw import method
from tests.clients.raw10 import AMQP_HEADER, OPEN, attach, begin, performative
from tests.regression.test_connection_ends import STOMP_CONNECT
from tests.regression.test_refusals_are_logged import talk

HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


@pytest.mark.parametrize("name", ["amqp", "stomp", "http", "bulk"])
def test_a_number_alone_is_a_port_of_this_machine(tmp_path: Path, name: str) -> None:
    """D33: 5672 as a host is the address 0.0.22.40."""
    file = tmp_path / "annulet.toml"
    for text in ('"5673"', "5673", '":5673"'):
        file.write_text(f"[listeners]\n{name} = {text}\n")
        assert getattr(load(file), name) == Endpoint("127.0.0.1", 5673)
    assert getattr(load(None, {"listeners": {name: "5673"}}), name) == Endpoint("127.0.0.1", 5673)
    with pytest.raises(ConfigurationError, match=rf"--{name}: .*70000.* is not a number from 0 to 65535"):
        load(None, {"listeners": {name: "70000"}})


@pytest.mark.parametrize("host", ["0x10", "127.1", "5672", "\uff11\uff12"])
def test_no_shorter_form_of_an_address_is_a_host(host: str) -> None:
    """D33: nor are its brothers, of which the system makes addresses as well."""
    with pytest.raises(ConfigurationError, match=r"--amqp: .* is no address in four parts; write 127\.0\.0\.1:5672"):
        load(None, {"listeners": {"amqp": f"{host}:5672"}})


async def test_an_amqp_listener_that_cannot_be_opened_is_named(broker: Broker) -> None:
    """D33: the error named neither the listener nor its option."""
    port = broker.amqp_address[1]
    with pytest.raises(
        StartError, match=rf"AMQP listener: cannot listen on 127.0.0.1:{port}: .*; set --amqp HOST:PORT"
    ):
        async with testing.broker(http=False, amqp=Endpoint("127.0.0.1", port)):
            pytest.fail("it cannot listen there")


def test_paths_of_a_file_are_relative_to_it_and_those_of_the_command_line_are_not(tmp_path: Path) -> None:
    """D33: a service is started from anywhere."""
    file = tmp_path / "annulet.toml"
    file.write_text(
        'data = "data"\n[listeners]\namqps = "0"\n[tls]\ncertificate = "broker.pem"\nkey = "/etc/broker.key"\n'
        'client_ca = "~/authority.pem"\n'
    )
    configuration = load(file)
    assert configuration.data_directory == tmp_path / "data"
    settings = configuration.tls["amqps"]
    assert (settings.certificate, settings.key) == (tmp_path / "broker.pem", Path("/etc/broker.key"))
    assert settings.client_ca == Path("~/authority.pem").expanduser()
    assert load(file, {"data": "data"}).data_directory == Path("data")


def test_an_unknown_tag_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    """D33: a user with the tag admin could do nothing, and no line said why."""
    file = tmp_path / "annulet.toml"
    file.write_text(f'[users.anna]\npassword_hash = "{HASH}"\ntags = ["admin"]\n')
    with pytest.raises(ConfigurationError, match=r"anna.tags: unknown tag .admin.; did you mean .administrator.\?"):
        load(file)
    file.write_text(f'[users.anna]\npassword_hash = "{HASH}"\ntags = ["administrator", "management", "monitoring"]\n')
    assert load(file).users["anna"].tags == ("administrator", "management", "monitoring")


def test_the_error_of_a_start_is_its_last_line(tmp_path: Path) -> None:
    """D33: it was followed by "[info] stopped"."""
    with BrokerProcess(None) as process:
        port = process.amqp_url.rpartition(":")[2].rstrip("/")
        done = subprocess.run(
            [*BrokerProcess(None).command(), "--amqp", port],
            capture_output=True, text=True, timeout=STOP_SECONDS, env=process.environment, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    lines = (done.stdout + done.stderr).strip().splitlines()
    assert not [line for line in lines if "stopped" in line], lines
    assert done.stderr.strip().splitlines()[-1].startswith("annulet: ")


def test_sighup_does_not_end_the_broker(tmp_path: Path) -> None:
    """D33: a terminal that closes sends it, and a service manager that reloads."""
    with BrokerProcess(None, log_file=tmp_path / "broker.log") as process:
        assert process.process is not None
        process.process.send_signal(signal.SIGHUP)
        process.wait_for_log("SIGHUP: the configuration was read again")
        assert process.process.poll() is None


@pytest.mark.parametrize("name", ["a\nb", "a\rb"])
async def test_names_with_line_breaks_are_refused_by_amqp_0_9_1(broker: Broker, name: str) -> None:
    """D33: queues, exchanges and addresses."""
    peer = await Peer(broker).open(1, 2, 3)
    declarations = [
        spec.Queue.Declare(queue=name),
        spec.Exchange.Declare(exchange=name),
        spec.Exchange.Declare(exchange=name, type="address"),
    ]
    await peer.take()
    for channel, declaration in enumerate(declarations, 1):
        await peer.send(channel, method(channel, declaration))
        refusal = await peer.one(commands.Channel.Close)
        assert refusal.reply_code == 406
        assert "contains a line break; give one without CR and LF" in refusal.reply_text


async def test_names_with_line_breaks_are_refused_by_amqp_1_0_and_stomp() -> None:
    """D33: addresses and queues made on demand."""
    async with testing.broker(http=False, stomp=True) as running:
        with capture_logs() as lines:
            opened = [AMQP_HEADER + performative(OPEN, "peer"), begin()]
            await talk(running, "amqp", [*opened, attach("link", 0, False, "a\nb")])
            subscribe = b"SUBSCRIBE\nid:1\ndestination:/queue/a\\nb\n\n\0"
            await talk(running, "stomp", [STOMP_CONNECT % b"guest", subscribe])
        reasons = [line["reason"] for line in lines if line["log_level"] == "warning"]
        assert len(reasons) == 2
        assert all("line break" in reason for reason in reasons), reasons
        assert not [name for name in running.broker.hosts["/"].queues if "\n" in name]


async def test_virtual_hosts_with_line_breaks_are_refused(broker: Broker, tmp_path: Path) -> None:
    """D33: by the file and by what creates them."""
    with pytest.raises(InvalidArgument, match=r"virtual host name .* contains a line break"):
        broker.create_host("a\nb")
    file = tmp_path / "annulet.toml"
    for text in (
        f'[users.anna]\npassword_hash = "{HASH}"\n[users.anna.permissions."a\\nb"]\nread = ".*"\n',
        '[[queues]]\nname = "q"\nvirtual_host = "a\\nb"\n',
        '[[queues]]\nname = "a\\rb"\n',
        '[[address_settings]]\nmatch = "#"\nvirtual_host = "a\\nb"\nmax-size-messages = 1\n',
    ):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match="contains a line break"):
            load(file)


async def test_a_stored_name_with_a_line_break_does_not_keep_the_broker_from_starting(tmp_path: Path) -> None:
    """D33: it was accepted once, and its messages are there."""
    async with testing.broker(data_dir=tmp_path, http=False) as running:
        catalogue = running.broker.catalogue
        catalogue.add_exchange("/", "e\n", "direct", False, False, {})
        catalogue.add_queue("/", "q\n", False, {})
    async with testing.broker(data_dir=tmp_path, http=False) as running:
        host = running.broker.hosts["/"]
        assert ("q\n" in host.queues, "e\n" in host.exchanges) == (True, True)
