"""Regular expressions whose search takes time in proportion to the text, whatever the expression.

Python's ``re`` goes back at each repetition: ``(a+)+$`` on thirty letters takes minutes, and the event loop waits. This
one follows all ways at once (Thompson 1968) and remembers the sets of states it has met, so that a usual search is one
look-up for each character. Permissions, policies and the filters of listings are such expressions.

Syntax: literals, ``.``, classes ``[a-z]``, ``[^a]``, ``\\d \\w \\s`` and their opposites, ``^``, ``$``, ``\\A``,
``\\z``, ``\\t \\n \\r \\f \\v``, groups ``(a)``, ``(?:a)`` and ``(?P<n>a)``, ``|``, and the repetitions
``* + ? {n} {n,} {n,m}``, also the lazy ones, which find the same. ``(?i)`` at the start compares letters without case.
Names are often excluded by ``^(?!a)b``, so that is understood, too, where the expression has no ``|`` outside of
groups. Other looking ahead or behind, back references and word boundaries are refused in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

CHARACTERS_MAX: Final = 4096
"""Characters of an expression: a permission may list all the names that it is for."""

STATES_MAX: Final = 5000
"""States of an expression: each character and class is one, and a repetition of n has the n-fold states."""

COMPILED_MAX: Final = 10 * STATES_MAX
"""Nodes that are made into states, each as often as it is repeated: 40 ms. A usual expression has 50: 0.1 ms."""

LOOKS_MAX: Final = 60_000
"""States that one search looks at, remembered sets excepted: some 30 ms. A usual search looks at 500, one for a name
at the end of a list of 200 names at 3,000. A longer search finds nothing, so it gives no permission."""

SETS_MAX: Final = 500
"""Remembered sets of states; when there are so many, all are forgotten."""

FILTER_CHARACTERS_MAX: Final = 256
"""Characters of the expression of a filter of names, which have at most 255 bytes."""

FILTER_STATES_MAX: Final = 300
"""States of the expression of a filter, which is searched in thousands of names: the worst ones found took 2 ms for the
first name of 255 letters, 0.2 ms for the next."""

REPEATS_MAX: Final = 255

DEPTH_MAX: Final = 30
"""Groups within groups."""

Test: TypeAlias = Callable[[str], bool]
Node: TypeAlias = "Item | Sequence | Choice | Repeat | Anchor"
States: TypeAlias = frozenset[int]


class _TooManyLooks(Exception):
    """A search has reached its bound."""


class ExpressionError(ValueError):
    """The text is no regular expression, or has something that is not supported. The message says what."""


@dataclass(frozen=True)
class Item:
    """One character."""

    test: Test


@dataclass(frozen=True)
class Sequence:
    """One after the other."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """One of several."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """Again and again; ``most`` of -1: without end."""

    node: Node
    least: int
    most: int


@dataclass(frozen=True)
class Anchor:
    """The start or the end of the text."""

    end: bool


DIGIT: Final[Test] = str.isdecimal
SPACE: Final[Test] = str.isspace


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _anything(_character: str) -> bool:
    return True


def _not(test: Test) -> Test:
    return lambda character: not test(character)


def _one_of(characters: frozenset[str]) -> Test:
    return characters.__contains__


def _between(first: str, last: str, *, ignore_case: bool) -> Test:
    if not ignore_case:
        return lambda character: first <= character <= last
    return lambda character: first <= character <= last or first <= character.swapcase() <= last


def _any_of(tests: tuple[Test, ...]) -> Test:
    return lambda character: any(test(character) for test in tests)


def _letter(character: str, *, ignore_case: bool) -> Test:
    if not ignore_case:
        return character.__eq__
    return _one_of(frozenset({character, character.lower(), character.upper(), character.swapcase()}))


CLASSES: Final[dict[str, Test]] = {
    "d": DIGIT, "D": _not(DIGIT), "w": _word, "W": _not(_word), "s": SPACE, "S": _not(SPACE),
}  # fmt: skip


ANCHORS: Final = "AzZ"

CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}

REFUSED_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "looking ahead (?=…) or (?!…), but for ^(?!…) at the start": ("=", "!"),
    "looking behind (?<=…) or (?<!…)": ("<=", "<!"),
    "a back reference (?P=…)": ("P=",),
    "a condition (?(…)…)": ("(",),
    "an atomic group (?>…)": (">",),
}


class _Parser:
    """Reads an expression into nodes."""

    def __init__(self, text: str, *, ignore_case: bool) -> None:
        self._text = text
        self._place = 0
        self._depth = 0
        self._ignore_case = ignore_case

    def parse(self) -> tuple[Node, Node | None]:
        """Return the node, and the one that must not be found: ``a`` of ``^(?!a)b``."""
        text, without = self._text, None
        if text.startswith("(?i)"):
            self._place = 4
            self._ignore_case = True
        if text.startswith("^(?!", self._place):
            self._place += 4
            without = self._choice()
            if self._next() != ")":
                raise ExpressionError("missing ')'")
            self._place += 1
            node: Node = Sequence((Anchor(end=False), self._sequence()))
            if self._next() == "|":
                raise ExpressionError("(?!…) is supported without '|' behind it; put the alternatives into (?:…)")
        else:
            node = self._choice()
        if self._place < len(text):
            raise ExpressionError(f"unbalanced ')' at {self._place}")
        return node, None if without is None else Sequence((Anchor(end=False), without))

    def _next(self) -> str:
        return self._text[self._place : self._place + 1]

    def _take(self) -> str:
        character = self._next()
        if not character:
            raise ExpressionError("it ends too early")
        self._place += 1
        return character

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ExpressionError(f"more than {DEPTH_MAX} groups within groups")
        branches = [self._sequence()]
        while self._next() == "|":
            self._place += 1
            branches.append(self._sequence())
        self._depth -= 1
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self._next() not in ("", "|", ")"):
            node = self._atom()
            while self._next() and self._next() in "*+?{":
                repeated = self._repetition(node)
                if repeated is None:
                    break
                node = repeated
            nodes.append(node)
        return Sequence(tuple(nodes))

    def _repetition(self, node: Node) -> Node | None:
        """Return the repeated node; ``None`` for a brace that is a literal."""
        mark = self._next()
        if mark == "{":
            bounds = self._braces()
            if bounds is None:
                return None
            least, most = bounds
        else:
            self._place += 1
            least, most = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[mark]
        if self._next() == "?":  # lazy
            self._place += 1
        return Repeat(node, least, most)

    def _braces(self) -> tuple[int, int] | None:
        end = self._text.find("}", self._place)
        inside = self._text[self._place + 1 : end] if end > 0 else ""
        least, comma, most = inside.partition(",")
        if not (least.isascii() and least.isdigit()) or not (most == "" or (most.isascii() and most.isdigit())):
            return None
        self._place = end + 1
        low = int(least[:9])
        high = low if not comma else (int(most[:9]) if most else -1)
        if low > REPEATS_MAX or high > REPEATS_MAX or -1 < high < low:
            raise ExpressionError(f"repetition {{{inside}}} must be of at most {REPEATS_MAX}, the lower bound first")
        return low, high

    def _atom(self) -> Node:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return Item(self._class())
        if character == ".":
            return Item(_anything)
        if character in "^$":
            return Anchor(character == "$")
        if character in "*+?":
            raise ExpressionError(f"nothing to repeat at {self._place - 1}")
        if character == "\\":
            if self._next() and self._next() in ANCHORS:
                return Anchor(self._take() != "A")
            return Item(self._escape())
        return Item(self._letter(character))

    def _letter(self, character: str) -> Test:
        return _letter(character, ignore_case=self._ignore_case)

    def _group(self) -> Node:
        if self._next() == "?":
            self._place += self._group_prefix(self._text[self._place + 1 :])
        node = self._choice()
        if self._next() != ")":
            raise ExpressionError("missing ')'")
        self._place += 1
        return node

    def _group_prefix(self, inside: str) -> int:
        """Return the length of a group's mark, up to its expression. ``inside``: the text behind its ``(?``."""
        for words, prefixes in REFUSED_GROUPS.items():
            if inside.startswith(prefixes):
                raise ExpressionError(f"{words} is not supported: it cannot be searched in bounded time")
        if inside.startswith(":"):
            return 2
        name = inside.removeprefix("P")
        end = name.find(">")
        if not name.startswith("<") or not name[1:end].isidentifier():
            raise ExpressionError("a group (?…) other than (?:…) and (?P<name>…) is not supported")
        return 2 + end + len(inside) - len(name)

    def _escape(self) -> Test:
        character = self._take()
        if character in CLASSES:
            return CLASSES[character]
        if character in CONTROLS:
            return CONTROLS[character].__eq__
        if character in "bB":
            raise ExpressionError(
                f"the word boundary \\{character} is not supported; name the characters, as in [^a-z]"
            )
        if character.isdecimal():
            raise ExpressionError(f"the back reference \\{character} is not supported: it takes unbounded time")
        if character.isalnum():
            raise ExpressionError(f"\\{character} is not supported")
        return self._letter(character)

    def _class(self) -> Test:
        negated = self._next() == "^"
        self._place += negated
        tests: list[Test] = []
        while self._next() != "]" or not tests:
            first = self._take()
            if first == "\\":
                name = self._next()
                tests.append(self._escape())
                if name in CLASSES:
                    continue
                first = name
            if self._next() == "-" and self._text[self._place + 1 : self._place + 2] not in ("]", ""):
                self._place += 1
                last = self._take()
                if last == "\\":
                    last = self._take()
                if last < first:
                    raise ExpressionError(f"range {first}-{last} is the wrong way round")
                tests.append(_between(first, last, ignore_case=self._ignore_case))
            else:
                tests.append(self._letter(first))
        self._place += 1
        test = _any_of(tuple(tests))
        return _not(test) if negated else test


@dataclass
class _State:
    """``test``: a character leads on. ``anchor``: a place in the text does. Neither: it leads on by itself."""

    test: Test | None = None
    anchor: Anchor | None = None
    following: list[int] = field(default_factory=list)


class Expression:
    """The base of expressions, ``pattern`` as it was written. It is found in no name."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def search(self, text: str) -> bool:
        """Return whether the expression is found anywhere in a text. False after :data:`LOOKS_MAX`."""
        return self.search_within(text, LOOKS_MAX)[0]

    def search_within(self, text: str, looks: int) -> tuple[bool, int]:
        """Search with so many looks at states. Returns whether it is found, and the looks left; -1: too few to know."""
        del text
        return False, looks


class UnusableExpression(Expression):
    """One of an earlier version, or of a backup, that this version does not take, for this ``reason``."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(pattern)
        self.reason = reason


def stored_expression(pattern: str) -> Expression:
    """Return the expression of a stored text; one that finds nothing where the text is not taken any more."""
    try:
        return LinearExpression(pattern)
    except ExpressionError as error:
        return UnusableExpression(pattern, str(error))


def filter_expression(text: str) -> LinearExpression:
    """Return the expression of a filter of names, which ignores case. Raises :class:`ExpressionError`."""
    return LinearExpression(text, ignore_case=True, characters_max=FILTER_CHARACTERS_MAX, states_max=FILTER_STATES_MAX)


class LinearExpression(Expression):
    """A compiled expression. Raises :class:`ExpressionError`."""

    def __init__(
        self,
        text: str,
        *,
        ignore_case: bool = False,
        characters_max: int = CHARACTERS_MAX,
        states_max: int = STATES_MAX,
    ) -> None:
        super().__init__(text)
        if len(text) > characters_max:
            raise ExpressionError(f"it has {len(text)} characters; {characters_max} are allowed")
        self._states = [_State()]  # the first: a match
        self._states_max = states_max
        self._compiled = 0  # nodes, each as often as it is repeated
        self._looks = 0  # at states, that this search may still take
        node, without = _Parser(text, ignore_case=ignore_case).parse()
        self._moves: dict[States, dict[str, States]] = {}  # with the search that begins anew at each place
        self._moves_from_start: dict[States, dict[str, States]] = {}  # without it
        self._start = self._compile(node, 0)
        self._without = -1 if without is None else self._compile(without, 0)

    def search_within(self, text: str, looks: int) -> tuple[bool, int]:
        """As :meth:`Expression.search_within`."""
        self._looks = looks
        try:
            excluded = self._without >= 0 and self._search(self._without, text)
            return not excluded and self._search(self._start, text), self._looks
        except _TooManyLooks:
            return False, -1

    def _search(self, start: int, text: str) -> bool:
        current = self._closure({start}, at_start=True, at_end=not text)
        again = self._start if start == self._start else -1
        known = self._moves if again >= 0 else self._moves_from_start
        for character in text:
            if 0 in current:
                return True
            moves = known.get(current)
            if moves is None:
                if len(known) >= SETS_MAX:
                    known.clear()
                moves = known[current] = {}
            following = moves.get(character)
            if following is None:
                following = moves[character] = self._step(current, character, again)
            current = following
        return 0 in current or 0 in self._closure(set(current), at_start=not text, at_end=True)

    def _step(self, current: States, character: str, start: int) -> States:
        """Return the states behind a character. The search begins anew there with ``start``, unless that is -1."""
        states = self._states
        reached = set() if start < 0 else {start}
        self._take_looks(len(current))
        for number in current:
            test = states[number].test
            if test is not None and test(character):
                reached.update(states[number].following)
        return self._closure(reached, at_start=False, at_end=False)

    def _closure(self, numbers: set[int], *, at_start: bool, at_end: bool) -> States:
        """Return the states that wait for a character or the end, and 0 for a match, from these on."""
        waiting, seen, kept = list(numbers), set(numbers), set()
        while waiting:
            number = waiting.pop()
            state = self._states[number]
            anchor = state.anchor
            if number == 0 or state.test is not None or (anchor is not None and anchor.end):
                kept.add(number)
            if state.test is not None or (anchor is not None and not (at_end if anchor.end else at_start)):
                continue
            for following in state.following:
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
        self._take_looks(len(seen))
        return frozenset(kept)

    def _take_looks(self, count: int) -> None:
        self._looks -= count
        if self._looks < 0:
            raise _TooManyLooks

    # ------------------------------------------------------------------ compiling

    def _add(self, state: _State) -> int:
        if len(self._states) > self._states_max:
            raise ExpressionError(f"it needs more than {self._states_max} states; repeat less")
        self._states.append(state)
        return len(self._states) - 1

    def _compile(self, node: Node, following: int) -> int:
        """Add the states of a node that leads to ``following``; return the first."""
        self._compiled += 1
        if self._compiled > COMPILED_MAX:  # a repeated part may be empty and have no state
            raise ExpressionError(f"it needs more than {self._states_max} states; repeat less")
        if isinstance(node, Item):
            return self._add(_State(test=node.test, following=[following]))
        if isinstance(node, Anchor):
            return self._add(_State(anchor=node, following=[following]))
        if isinstance(node, Sequence):
            for each in reversed(node.nodes):
                following = self._compile(each, following)
            return following
        if isinstance(node, Choice):
            return self._add(_State(following=[self._compile(each, following) for each in node.nodes]))
        return self._compile_repeat(node, following)

    def _compile_repeat(self, node: Repeat, following: int) -> int:
        if node.most < 0:
            loop = self._add(_State())
            self._states[loop].following = [self._compile(node.node, loop), following]
            following = loop
        else:
            end = following
            for _ in range(node.most - node.least):
                following = self._add(_State(following=[self._compile(node.node, following), end]))
        for _ in range(node.least):
            following = self._compile(node.node, following)
        return following
