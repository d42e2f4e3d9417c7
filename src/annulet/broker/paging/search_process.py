"""The process that looks ahead of selectors' walks over deep queues: started on need, watched, ended when idle.

It is another interpreter that runs :mod:`annulet.store.searching.search_process` on the end of a socket. Without it,
walks go on: then the event loop reads the unanswered part.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from annulet.store.searching.search_process import PACKET_BYTES_MAX, pack_stretch, unpack_answer

if TYPE_CHECKING:
    import asyncio

    from annulet.store.searching.search import Search, Stretch

logger = structlog.get_logger(__name__)

WAIT_SECONDS: Final = 0.05
"""Without an answer for so long walks go on by themselves until one comes: the process starts, waits for a disk or has
no processor. An answer about 1 KiB messages takes 1 to 5 ms of it; a segment whose heads are not beside it and that is
on a disk of less than 320 MB a second takes longer, and is examined by the first to reach it."""

SILENT_SECONDS: Final = 60.0
"""Without an answer for so long it is given up: a stretch is no more than a segment, 16 MiB as a rule."""

IDLE_SECONDS: Final = 5.0
"""It ends after this time without a request: the next selector of a deep queue comes soon or much later."""

RETRY_SECONDS: Final = 60.0
"""Until it is started again after it failed."""

KILL_SECONDS: Final = 2.0
"""After which one that was told to end is killed: it may wait for a disk."""

SEND_BYTES: Final = 1 << 20
"""Of stretches on their way to it, as far as the system allows: the work it has while the event loop does another."""

ANSWERS: Final = 64
"""Answers taken in one turn of the loop: some 0.3 ms, and 3 where all of them have as many doubts as are kept."""

ERROR_BYTES: Final = 500
"""The end of its output before it failed, for the log: the type of the error and its text."""

REMEDY: Final = "selectors find the same, more slowly; look for limits on processes, or set search_process = false"

PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from annulet.store.searching.search_process import main; main(int(sys.argv[1]))"
)
"""Its command, without site packages' start-up files (-S) and the environment's settings (-I): where modules are it is
told as arguments."""


class SearchProcess:
    """Answers what ``search`` asks. Belongs to the event loop. ``executable``: the interpreter, this one by default."""

    def __init__(self, loop: asyncio.AbstractEventLoop, search: Search, executable: str = sys.executable) -> None:
        self.started = self.failed = 0
        self._loop = loop
        self._search = search
        self._executable = executable
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._unsent: deque[Stretch] = deque()
        self._heard = 0.0  # when the last answer came, or was first waited for
        self._watch: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._ending: list[subprocess.Popen[bytes]] = []  # that were told, or found, to end
        self._failures: dict[subprocess.Popen[bytes], str] = {}  # of these, why
        search.submit = self._submit

    @property
    def pid(self) -> int:
        """The id of the process; 0 while there is none."""
        return 0 if self._process is None else self._process.pid

    def close(self) -> None:
        """Have nothing searched any more, and leave no process behind."""
        if self._retry is not None:
            self._retry.cancel()
        self._end()
        self._search.submit = None
        for process in self._ending:
            process.kill()
            process.wait()
            _error_of(process)
        self._ending.clear()

    def _submit(self, stretch: Stretch) -> None:
        """Send a stretch as soon as the socket takes it."""
        if self._channel is None:
            try:
                self._start()
            except OSError as error:
                self._fail(f"it cannot be started: {error}")
                return
        if self._search.pending == 1:
            self._heard = self._loop.time()
        self._unsent.append(stretch)
        self._send()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                folders = [str(Path(folder).absolute()) for folder in sys.path]
                self._process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this
                    [self._executable, "-I", "-S", "-c", PROGRAM, str(theirs.fileno()), *folders],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # a signal to the terminal's processes is for the broker
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        self._channel = ours
        self.started += 1
        self._heard = self._loop.time()
        self._loop.add_reader(ours, self._readable)
        self._watch = self._loop.call_later(WAIT_SECONDS, self._look_after)
        logger.debug("search process started", pid=self._process.pid)

    def _send(self) -> None:
        """Send what the socket takes; there is more room when the next answer comes."""
        while self._unsent and self._channel is not None:
            stretch = self._unsent[0]
            files = self._search.files_of(stretch)
            try:
                if files:
                    descriptors = [file.fileno() for file in files]
                    socket.send_fds(self._channel, [pack_stretch(stretch)], descriptors)
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(f"it cannot be asked: {error}")
                return
            self._unsent.popleft()

    def _readable(self) -> None:
        """Take answers; the end of the socket is the end of the process."""
        channel = self._channel
        try:
            with contextlib.suppress(BlockingIOError):  # that was all for now
                for _ in range(ANSWERS):
                    if channel is None or channel is not self._channel:  # given up meanwhile
                        return
                    packet = channel.recv(PACKET_BYTES_MAX)
                    if not packet:
                        self._fail("it has ended")
                        return
                    self._heard = self._loop.time()
                    self._search.prompt = True
                    self._search.answer(*unpack_answer(packet))
        except OSError as error:
            self._fail(f"it does not answer: {error}")
            return
        self._send()

    def _look_after(self) -> None:
        """Ensure that no walk waits in vain, and that it does not run without need."""
        silent = self._loop.time() - self._heard
        if self._search.pending:
            if silent > SILENT_SECONDS:
                self._fail(f"it has not answered for {SILENT_SECONDS:.0f} seconds")
                return
            if silent > WAIT_SECONDS and self._search.prompt:
                self._search.prompt = False
                self._search.wake()
        elif silent > IDLE_SECONDS:
            self._end()
            return
        self._watch = self._loop.call_later(WAIT_SECONDS, self._look_after)

    def _fail(self, reason: str) -> None:
        """Do without it for a while."""
        self.failed += 1
        process = self._process
        self._search.submit = None
        self._retry = self._loop.call_later(RETRY_SECONDS, self._allow)
        self._end()
        if process is None:
            logger.warning("search process failed", reason=reason, remedy=REMEDY)
        else:
            self._failures[process] = reason

    def _allow(self) -> None:
        """Let it be started again."""
        self._search.submit = self._submit

    def _end(self) -> None:
        """Close the socket, at whose end the process ends."""
        self._unsent.clear()
        if self._watch is not None:
            self._watch.cancel()
        if self._channel is not None:
            self._loop.remove_reader(self._channel)
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._ending.append(self._process)
            self._loop.call_later(WAIT_SECONDS, self._reap, self._process, self._loop.time())
            self._process = None
        self._search.forget_pending()

    def _reap(self, process: subprocess.Popen[bytes], since: float) -> None:
        """Wait for the end of a process without blocking, and return its failure, if any."""
        if process not in self._ending:  # it was closed
            return
        if process.poll() is None:
            if self._loop.time() - since > KILL_SECONDS:
                process.kill()
            self._loop.call_later(WAIT_SECONDS, self._reap, process, since)
            return
        self._ending.remove(process)
        error = _error_of(process)
        reason = self._failures.pop(process, None)
        if reason is not None:
            logger.warning(
                "search process failed", reason=reason, status=process.returncode, error=error, remedy=REMEDY
            )


def _error_of(process: subprocess.Popen[bytes]) -> str:
    """Return the last it wrote, and close that."""
    assert process.stderr is not None
    with process.stderr as stream:
        return stream.read()[-ERROR_BYTES:].decode(errors="replace")
