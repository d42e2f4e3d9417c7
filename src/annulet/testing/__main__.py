"""A broker for tests in other languages: ``python -m annulet.testing --print-urls``.

It prints a line ``NAME=URL`` for each listener, then one empty line, and runs until its standard input ends or its
parent process does. Lines on the standard input are commands; each is answered by one line that begins with ``ok`` or
``error``.

=================== ==============================================================================
command             effect
=================== ==============================================================================
``settle``          answers when the broker has handled all that clients have sent
``advance 1h``      settles, moves the clock, and answers when all that fell due was done
``reset``           replaces the broker by an empty one at the same AMQP URL; other URLs are printed
``story BODY``      answers with what happened to a message, as JSON
=================== ==============================================================================
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Final, TextIO

from annulet.broker.settings.configuration import StartError
from annulet.testing.session import BrokerSession

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.testing.threaded import ThreadedBroker

PARENT_SECONDS: Final = 0.5
"""Between two looks whether the parent process is still there."""

LISTENERS: Final = ("amqp", "stomp", "http", "bulk")
BY_DEFAULT: Final = "amqp,stomp,http"


class Console:
    """Serves the commands of one test run."""

    def __init__(self, options: argparse.Namespace, output: TextIO) -> None:
        self._listeners: list[str] = options.listeners
        self._output = output
        self._session = BrokerSession(options.port)
        self._broker = self._start()

    def _start(self) -> ThreadedBroker:
        started = self._session.start(**{name: True for name in self._listeners if name != "amqp"})
        for name in self._listeners:
            self._print(f"{name.upper()}_URL={getattr(started, f'{name}_url')}")
        self._print("")
        return started

    def answer(self, line: str) -> None:
        """Carry out one command."""
        name, _, argument = line.strip().partition(" ")
        try:
            self._print(f"ok {self._carry_out(name, argument)}".strip())
        except (LookupError, ValueError, TimeoutError, StartError) as error:
            self._print(f"error {' '.join(str(error).split())}")

    def _carry_out(self, name: str, argument: str) -> object:
        if name == "settle":
            self._broker.settle()
            return ""
        if name == "advance":
            return self._broker.clock.advance(argument)
        if name == "story":
            return json.dumps(self._broker.story(argument).splitlines())
        if name == "reset":
            self._broker.stop()
            self._broker = self._start()
            return ""
        raise LookupError(f"no command {name!r}; there are settle, advance DURATION, story BODY and reset")

    def close(self) -> None:
        """Stop the broker."""
        self._broker.stop()
        self._session.close()

    def _print(self, line: str) -> None:
        self._output.write(f"{line}\n")
        self._output.flush()


def listener_names(text: str) -> list[str]:
    """Return the names of listeners in a list with commas. Raises ``argparse.ArgumentTypeError``."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in LISTENERS:
            raise argparse.ArgumentTypeError(f"no listener {name!r}; give some of {','.join(LISTENERS)}")
    return names


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m annulet.testing", description="A broker for tests, in memory.")
    parser.add_argument("--print-urls", action="store_true", required=True, help="print the URL of each listener")
    parser.add_argument("--port", type=int, default=0, help="AMQP's port; the kernel chooses without it")
    parser.add_argument("--listeners", type=listener_names, default=listener_names(BY_DEFAULT), help=BY_DEFAULT)
    return parser.parse_args(arguments)


def end_with_parent(ended: threading.Event, parent: int) -> None:
    """End the process when its parent has ended: its tests were killed, and the standard input may be shared."""
    while not ended.wait(PARENT_SECONDS):
        if os.getppid() != parent:
            os._exit(0)


def main(arguments: Sequence[str] | None = None, source: TextIO | None = None, output: TextIO | None = None) -> int:
    """Run until the end of the input. Returns the exit code: 0, or 2 where the broker cannot start."""
    options = parse(arguments)
    ended = threading.Event()
    watch = threading.Thread(
        target=end_with_parent, args=(ended, os.getppid()), name="annulet-test-parent", daemon=True
    )
    watch.start()
    try:
        console = Console(options, sys.stdout if output is None else output)
    except StartError as error:
        sys.stderr.write(f"annulet.testing: {error}\n")
        return 2
    try:
        for line in sys.stdin if source is None else source:
            if line.strip():
                console.answer(line)
    except KeyboardInterrupt:
        sys.stderr.write("annulet.testing: interrupted\n")
    finally:
        console.close()
        ended.set()
        watch.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
