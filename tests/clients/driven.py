"""Clients in other interpreters: a process that takes a command in JSON a line and answers with a line.

Values that JSON has no type for are :class:`Typed` here, octets are bytes and maps are dicts; on the line they are an
object with one key, the AMQP 1.0 type.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

ANSWER_SECONDS = 60.0
"""How long a driver may be silent; it ends every wait of its own sooner."""


class Typed(NamedTuple):
    """A value with the AMQP 1.0 type that neither JSON nor Python has: ``Typed("ulong", 7)``."""

    kind: str
    value: Any


class Refused(Exception):
    """What the driver could not do: the peer's condition and its text, or ``timeout``."""

    def __init__(self, text: str, condition: str) -> None:
        super().__init__(f"{condition}: {text}" if condition else text)
        self.text = text
        self.condition = condition


EXACT_INTEGERS = 2**53
"""What JavaScript's numbers hold exactly; greater ones go as text."""


def to_line(value: Any) -> Any:
    """Return a value as it goes over the line."""
    if isinstance(value, Typed):
        content = value.value
        if isinstance(content, int) and abs(content) > EXACT_INTEGERS:
            return {value.kind: str(content)}
        return {value.kind: [to_line(one) for one in content] if isinstance(content, list | tuple) else content}
    if type(value) is int and abs(value) > EXACT_INTEGERS:
        return {"long": str(value)}
    if type(value) is float:
        return {"double": value}
    if isinstance(value, bytes):
        return {"binary": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {"map": [[to_line(key), to_line(one)] for key, one in value.items()]}
    if isinstance(value, list):
        return [to_line(one) for one in value]
    return value


def from_line(value: Any) -> Any:
    """Return the value that came over the line."""
    if isinstance(value, list):
        return [from_line(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "binary":
        return base64.b64decode(content)
    if kind == "map":
        return {from_line(key): from_line(one) for key, one in content}
    if kind == "double":
        return float(content)
    if isinstance(content, str) and kind in {"long", "ulong"}:
        content = int(content)
    if kind == "long":
        return content
    return Typed(kind, [from_line(one) for one in content] if isinstance(content, list) else content)


MAPS_OF_VALUES = ("properties", "annotations", "instructions")
NOT_VALUES = ("section", "tag", "settled")


def message_to_line(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message, a dict of named fields, as it goes over the line."""
    line: dict[str, Any] = {}
    for name, value in message.items():
        if name in MAPS_OF_VALUES:
            line[name] = {key: to_line(one) for key, one in value.items()}
        else:
            line[name] = value if name in NOT_VALUES else to_line(value)
    return line


def message_from_line(line: dict[str, Any]) -> dict[str, Any]:
    """Return the message that came over the line."""
    message: dict[str, Any] = {}
    for name, value in line.items():
        if name in MAPS_OF_VALUES:
            message[name] = {key: from_line(one) for key, one in value.items()}
        else:
            message[name] = value if name in NOT_VALUES else from_line(value)
    return message


class DriverProcess:
    """The other end of the lines. Ends with the block it is the context of."""

    def __init__(
        self, command: list[str], *, folder: Path | None = None, environment: dict[str, str] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
        self._answers: queue.Queue[str] = queue.Queue()
        self._complaints: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_complaints, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _read_complaints(self) -> None:
        assert self.process.stderr is not None
        self._complaints.extend(self.process.stderr)

    def ask(self, do: str, **arguments: Any) -> Any:
        """Give a command and return its result; an error of the peer is :class:`Refused`."""
        self.tell(do, **arguments)
        return self.answer()

    def tell(self, do: str, **arguments: Any) -> None:
        """Give a command without waiting for its :meth:`answer`."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Return the result of the command told first."""
        try:
            line = self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise AssertionError(f"no answer within {ANSWER_SECONDS} s:\n{''.join(self._complaints)}") from None
        assert line, f"the driver ended:\n{''.join(self._complaints)}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["condition"])
        return answer["result"]

    def kill(self) -> None:
        """End the process without a word to its peers."""
        self.process.kill()
        self.process.wait(ANSWER_SECONDS)

    def __enter__(self) -> DriverProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:  # it hangs in a wait, or was stopped by a signal
            self.kill()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
