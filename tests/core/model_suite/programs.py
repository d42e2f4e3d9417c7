"""Reads a string of bytes as a program of commands: Hypothesis draws it at once and shrinks it by deleting bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import note

from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_OFF, BROWSE_SNAPSHOT, OVERFLOW_REJECT, QueueSettings
from tests.core.model_suite.compositions import Composition
from tests.core.model_suite.policies import (
    BROWSERS,
    COLOUR,
    FAIR_KEY,
    LAST_VALUE_KEY,
    LIFETIMES,
    LOCAL,
    PRIORITIES,
    SCHEDULES,
    SELECTORS,
    SORT_KEY,
)
from tests.core.model_suite.runner import ACKNOWLEDGE, DROP, REQUEUE, ConsumerShape, MessageShape, Runner, SessionPair

SHORTEST, LONGEST = 80, 500
"""Bytes of a program; a command takes one to fifteen of them."""

SESSIONS_MAX = 3
CONSUMERS_MAX = 3

SORT_VALUES = (None, 1, 2, 2.0, "a", "b", True, b"z", float("nan"))


class Program:
    """The bytes, and choices made from them. At the end every choice is the first one."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.place = 0

    @property
    def ended(self) -> bool:
        return self.place >= len(self.text)

    def choose(self, *choices: Any) -> Any:
        """One of the choices by the next byte."""
        byte = 0 if self.ended else self.text[self.place]
        self.place += 1
        return choices[byte % len(choices)]


@dataclass(frozen=True)
class Command:
    """One kind of step: how often, and whether it makes sense in a composition at all."""

    run: Callable[[Interpreter], str]
    weight: int
    applies: Callable[[QueueSettings, frozenset[str]], bool] = lambda settings, traits: True


class Interpreter:
    """Runs a program on a composition, comparing after every command."""

    def __init__(self, composition: Composition, text: bytes) -> None:
        self.traits = composition.traits
        self.settings = composition.settings
        self.program = Program(text)
        copies = self.settings.non_destructive or BROWSERS in self.traits
        self.runner = Runner(self.settings, copies=copies)
        self.commands = [command for command in COMMANDS for _ in range(command.weight)]

    def run(self) -> None:
        """Open the sessions, and take commands until the bytes end."""
        self.open_sessions()
        while not self.program.ended:
            command: Command = self.program.choose(*self.commands)
            done = self.execute(command)
            if done:
                note(done)
                self.runner.compare()

    def open_sessions(self) -> None:
        """Open two sessions, mostly with a consumer."""
        for _ in range(2):
            self.runner.open_session(self.program.choose(-1, -1, -1, 2, 3))
            if self.program.choose(False, True, True):
                note(attach(self))

    def execute(self, command: Command) -> str:
        """Run a command and say what it did; empty when it makes no sense here."""
        return command.run(self) if command.applies(self.settings, self.traits) else ""

    # ------------------------------------------------------------------ choices

    def message(self) -> MessageShape:
        """A message; what its composition does not use is left out, but takes its byte all the same.

        So the same bytes are nearly the same program on another composition.
        """
        settings, traits = self.settings, self.traits
        ordered = settings.priorities > 0 or settings.max_priority >= 0
        properties = {
            LAST_VALUE_KEY: self.if_used(True, "a", "b", None, "c"),
            SORT_KEY: self.if_used(bool(settings.sort_key), *SORT_VALUES),
            FAIR_KEY: self.if_used(bool(settings.fair_key), "x", "y", None),
            COLOUR: self.if_used(SELECTORS in traits, "red", "blue"),
        }
        soon = 1 if SCHEDULES in traits else 0
        return MessageShape(
            size=self.program.choose(1, 2, 0, 3, 5, 4, 9),
            priority=self.if_used(ordered, None, 0, 9, 4, 5, 1),
            lifetime=self.if_used(LIFETIMES in traits, None, 5, None, 2, 20, soon),
            delay=self.if_used(SCHEDULES in traits, 0, 3, 6, 0, 3, 10) or 0,
            group=self.if_used(settings.group_mode != "", "a", "b", "", "c") or "",
            closes_group=self.if_used(settings.group_mode != "", False, False, False, False, True) or False,
            connection=self.if_used(LOCAL in traits, 0, 1) or 0,
            properties={name: value for name, value in properties.items() if value is not None},
        )

    def consumer(self) -> ConsumerShape:
        choose, traits = self.program.choose, self.traits
        messages_max, bytes_max = choose(1, 1, 2, 2, 3, 0, -1), choose(-1, -1, 3, 6)
        automatic = choose(False, False, False, False, False, False, False, True)
        priority = self.if_used(PRIORITIES in traits, 0, 1, 0, 2) or 0
        colour = self.if_used(SELECTORS in traits, "", "red", "blue") or ""
        browse = self.if_used(BROWSERS in traits, BROWSE_OFF, BROWSE_FOLLOW, BROWSE_SNAPSHOT) or BROWSE_OFF
        # What a browser sees while others take messages from under a window too small for them is nobody's promise.
        bytes_max = -1 if browse else bytes_max
        no_local = self.if_used(LOCAL in traits, False, True) or False
        return ConsumerShape(messages_max, bytes_max, automatic, priority, colour, browse, no_local)

    def if_used(self, used: bool, *choices: Any) -> Any:
        """A choice, or ``None`` where the composition has no use for it."""
        chosen = self.program.choose(*choices)
        return chosen if used else None

    def session(self, *, having: Callable[[SessionPair], object] = lambda pair: True) -> SessionPair | None:
        fitting = [pair for pair in self.runner.sessions if having(pair)]
        return self.program.choose(*fitting) if fitting else None


# ---------------------------------------------------------------------- commands: each says what it did, "" = nothing


def publish(self: Interpreter) -> str:
    shape = self.message()
    self.runner.publish(shape)
    return f"publish {shape}"


def open_session(self: Interpreter) -> str:
    if len(self.runner.sessions) >= SESSIONS_MAX:
        return ""
    shared = self.program.choose(-1, 1, 2, 3)
    self.runner.open_session(shared)
    return f"open a session with a shared window of {shared}"


def attach(self: Interpreter) -> str:
    pair = self.session()
    if pair is None or sum(len(pair.consumers) for pair in self.runner.sessions) >= CONSUMERS_MAX:
        return ""
    shape = self.consumer()
    self.runner.attach(pair, shape)
    return f"attach c{self.runner.names} to {pair.real.name}: {shape}"


def cancel(self: Interpreter) -> str:
    pair = self.session(having=lambda pair: pair.consumers)
    if pair is None:
        return ""
    tag, keep = self.program.choose(*sorted(pair.consumers)), self.program.choose(True, False)
    self.runner.cancel(pair, tag, keep_deliveries=keep)
    return f"cancel {tag}, its deliveries {'stay' if keep else 'come back'}"


def close(self: Interpreter) -> str:
    pair = self.session()
    if pair is None:
        return ""
    self.runner.close(pair)
    return f"close {pair.real.name}"


def get(self: Interpreter) -> str:
    pair = self.session()
    if pair is None:
        return ""
    automatic = self.program.choose(False, False, False, True)
    self.runner.get(pair, automatic=automatic)
    return f"get by {pair.real.name}{', acknowledged' if automatic else ''}"


def _settle(self: Interpreter, how: str) -> str:
    pair = self.session(having=lambda pair: pair.model.held)
    if pair is None:
        return ""
    tag = self.program.choose(*pair.model.held, *pair.model.held, 0)
    multiple, transacted = self.program.choose(False, False, True), self.program.choose(False, False, False, True)
    self.runner.settle(pair, tag, how, multiple=multiple, transacted=transacted)
    return f"{how} {tag} of {pair.real.name}{' and before' * multiple}{' in a transaction' * transacted}"


def acknowledge(self: Interpreter) -> str:
    return _settle(self, ACKNOWLEDGE)


def requeue(self: Interpreter) -> str:
    return _settle(self, REQUEUE)


def drop(self: Interpreter) -> str:
    return _settle(self, DROP)


def recover(self: Interpreter) -> str:
    pair = self.session(having=lambda pair: pair.model.held)
    if pair is None:
        return ""
    self.runner.recover(pair)
    return f"recover {pair.real.name}"


def send_in_transaction(self: Interpreter) -> str:
    pair = self.session()
    if pair is None:
        return ""
    shape = self.message()
    self.runner.send_in_transaction(pair, shape)
    return f"send in a transaction of {pair.real.name}: {shape}"


def end_transaction(self: Interpreter) -> str:
    pair = self.session(having=lambda pair: pair.sends or pair.model.in_transaction)
    if pair is None:
        return ""
    if self.program.choose(True, True, False):
        self.runner.commit(pair)
        return f"commit {pair.real.name}"
    self.runner.rollback(pair)
    return f"roll back {pair.real.name}"


def stall_or_go_on(self: Interpreter) -> str:
    pair = self.session()
    if pair is None:
        return ""
    self.runner.set_writable(pair, writable=not pair.real.writable)
    return f"{pair.real.name} is {'writable' if pair.real.writable else 'full'}"


def pass_time(self: Interpreter) -> str:
    elapsed = self.program.choose(1, 2, 3, 5, 8)
    self.runner.pass_time(elapsed)
    return f"{elapsed} ms pass"


def pause_or_resume(self: Interpreter) -> str:
    self.runner.pause(paused=not self.runner.oracle.paused)
    return "pause" if self.runner.oracle.paused else "resume"


def purge(self: Interpreter) -> str:
    if not self.program.choose(False, False, False, True):
        return ""
    self.runner.purge()
    return "purge"


def operate(self: Interpreter) -> str:
    """Delete, give another priority or deliver now: one command for what an operator does to one message."""
    scheduled = self.runner.oracle.scheduled()
    waiting = [*self.runner.oracle.pending(), *scheduled]
    if not waiting:
        return ""
    message = self.program.choose(*waiting)
    if message in scheduled and self.program.choose(True, False):
        self.runner.deliver_now(message)
        return f"deliver {message.number} now"
    if message not in scheduled and self.program.choose(True, False):
        priority = self.program.choose(0, 9, 4)
        self.runner.reprioritise(message, priority)
        return f"{message.number} has priority {priority} now"
    self.runner.delete(message)
    return f"delete {message.number}"


def reset_groups(self: Interpreter) -> str:
    self.runner.reset_groups()
    return "reset all groups"


def update(self: Interpreter) -> str:
    choose = self.program.choose
    settings = self.runner.oracle.settings
    changes: dict[str, Any] = {}
    if settings.ring_size >= 0:
        changes |= {"ring_size": choose(1, 2, 4), "ring_trim_now": choose(False, True)}
    if settings.max_length >= 0:
        changes["max_length"] = choose(2, 3, 5, 1)
    if settings.message_ttl >= 0:
        changes["message_ttl"] = choose(8, 4, 20)
    if not changes:
        return ""
    self.runner.update(**changes)
    return f"update {changes}"


COMMANDS = (
    Command(publish, 12),
    Command(open_session, 1),
    Command(attach, 5),
    Command(cancel, 1),
    Command(close, 1),
    Command(get, 2),
    Command(acknowledge, 5),
    Command(requeue, 4),
    Command(drop, 2),
    Command(recover, 1),
    Command(send_in_transaction, 1, lambda settings, traits: settings.overflow != OVERFLOW_REJECT),
    Command(end_transaction, 2),
    Command(stall_or_go_on, 1),
    Command(pass_time, 4),
    Command(pause_or_resume, 1),
    Command(purge, 1),
    Command(operate, 1),
    Command(reset_groups, 1, lambda settings, traits: settings.group_mode != ""),
    Command(update, 1),
)
