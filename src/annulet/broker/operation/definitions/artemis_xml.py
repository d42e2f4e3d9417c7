"""Reads addresses, address settings and diverts of Artemis's ``broker.xml``, or of a part of one.

Everything else of such a file is listed by name and reason. The XML has no document type and no entities; it is parsed
in pieces, and each part of it is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from xml.parsers import expat

from annulet.broker.settings.static_definitions import address_arguments
from annulet.core.base.errors import CoreError, InvalidArgument
from annulet.core.configuration.address_settings import AddressPattern, parse_address_settings
from annulet.core.configuration.address_settings.patterns import LITERAL
from annulet.core.configuration.arguments import parse_queue_arguments
from annulet.core.configuration.arguments.unknown import REFUSE
from annulet.core.configuration.arguments.values import shown
from annulet.core.routing.bindings import ROUTING_TYPE, TO_QUEUE
from annulet.core.routing.exchanges.address import ADDRESS_TYPE, ROUTING_TYPE_NAMES

if TYPE_CHECKING:
    from annulet.broker.operation.definitions.reading import Reading

XML_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of a file: 20,000 addresses with a queue each."""

PART_BYTES_MAX: Final = 64 * 1024
"""Bytes of one tag, text or comment, and of the texts of one address setting, queue or divert."""

DEPTH_MAX: Final = 32
"""Elements within each other: Artemis's own files have eight."""

PIECE_BYTES: Final = 4 * 1024
"""Parsed before other tasks get a turn: at most a few milliseconds."""

REFUSED_MAX: Final = 50_000
"""Parts that are not taken and listed with their reasons: two of each queue in the largest file."""

SHOWN_MAX: Final = 600
"""Characters of such a part's name, and of the reason: 60 KB of name, once for each setting, made 170 MB of 1 MB."""

UNKNOWN_NAMES_MAX: Final = 200
"""Different names of refused settings and arguments: the one meant is looked for, which takes up to 10 ms for each."""

REASONS_MAX: Final = 1000
"""Reasons that are remembered, as many queues have the same arguments."""

COMPARED_MAX: Final = 200_000
"""Comparisons of names with patterns at the end, of a few microseconds each."""

ROOT: Final = "definitions"
"""Around the document, which may have several elements side by side. A document type cannot stand in it."""

CONTAINERS: Final = frozenset({"configuration", "core", "addresses", "address-settings", "diverts"})
"""Elements whose children are read."""

PARTS: Final = frozenset({"address-setting", "divert"})
"""Elements that are read as a whole; so is a queue within an address."""

ADDRESS: Final = "address"
QUEUE: Final = "queue"
FILTER: Final = "filter"
BROKER_XML: Final = "broker.xml"
"""The kind of the other elements in the list of parts that are not taken."""

NOT_READ: Final = (
    "addresses, address-settings and diverts of a broker.xml are taken; configure it as docs/operation.md says"
)

NOT_OF_QUEUES: Final = {
    "enabled": "queues cannot be disabled; delete its binding to the address",
    "user": "queues have no owner; give the user permissions",
    "id": "queues get their ids from this broker",
    "auto-delete": "this broker deletes declared queues as 'auto-delete-created-queues' of the address says",
}
"""Attributes of queues that mean nothing here, with the reason."""

CLEARER: Final = {"exclusive": "x-exclusive-consumer", "last-value-queue": "default-last-value-queue"}
"""Names of Artemis that mean something else elsewhere, or are old, with those that this broker reads."""

_DECLARATION: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*(<\?xml[^>]{0,200}\?>)?")
_ENCODING: Final = re.compile(rb"encoding\s*=\s*[\"']([^\"']{0,40})[\"']")
_SIZE: Final = re.compile(r"([0-9]{1,18})\s*([KMG])(?:i?B)?", re.IGNORECASE)
_SIZES: Final = frozenset({"max-size-bytes", "page-limit-bytes", "max-size-bytes-reject-threshold"})


def is_xml(octets: bytes) -> bool:
    """Return whether a document is XML: JSON never begins so."""
    return octets[:PIECE_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"


def read_broker_xml(octets: bytes, reading: Reading) -> Iterator[None]:
    """Read a ``broker.xml``; after each piece a caller may give turns. Raises :class:`InvalidArgument` for another."""
    if len(octets) > XML_BYTES_MAX:
        raise InvalidArgument(f"the XML has {len(octets)} bytes; {XML_BYTES_MAX} are allowed; leave other parts out")
    declaration = _DECLARATION.match(octets)
    start = 0 if declaration is None else declaration.end()
    encoding = _ENCODING.search(octets[:start])
    if encoding is not None and encoding[1].lower() not in {b"utf-8", b"us-ascii", b"ascii"}:
        raise InvalidArgument(f"the XML is in {shown(encoding[1].decode('ascii', 'replace'))}; write it in UTF-8")
    walk = _Walk(reading)
    yield from walk.parse(f"<{ROOT}>".encode())
    for at in range(start, len(octets), PIECE_BYTES):
        yield from walk.parse(octets[at : at + PIECE_BYTES])
    yield from walk.parse(f"</{ROOT}>".encode(), last=True)
    yield from walk.finish()


class _Element:
    """An element of a part that is read as a whole."""

    def __init__(self, name: str, attributes: dict[str, str], address: str = "") -> None:
        self.name = name
        self.address = address  # that a queue is within
        self.attributes = attributes
        self.children: list[_Element] = []
        self.texts: list[str] = []

    @property
    def text(self) -> str:
        """The text, without blanks around it."""
        return "".join(self.texts).strip()


class _Walk:
    """The walk through a file: its place, and the items for the reading."""

    def __init__(self, reading: Reading) -> None:
        self._items = _Items(reading)
        self._open: list[str] = []  # containers, an address with its routing type, the root
        self._skipped = 0  # elements within something that is not read
        self._part: list[_Element] = []  # the part that is read now, and the open elements in it
        self._ended: list[tuple[_Element, str]] = []  # parts of this piece, with what each is within
        self._part_bytes = 0
        self._since_mark = 0  # bytes since the last tag or text
        parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse_type
        parser.EntityDeclHandler = self._refuse_type
        self._parser = parser

    def parse(self, piece: bytes, *, last: bool = False) -> Iterator[None]:
        """Parse a piece, and then read the parts that end in it."""
        self._since_mark += len(piece)
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            raise InvalidArgument(
                f"the XML is wrong in line {error.lineno}: {expat.errors.messages[error.code]}; mend it; a document "
                "type and entities are not taken"
            ) from error
        if self._since_mark > PART_BYTES_MAX:
            raise InvalidArgument(f"the XML has a tag, comment or text of more than {PART_BYTES_MAX} bytes; shorten it")
        yield
        for element, within in self._ended:
            yield from self._items.part(element, within)
        self._ended.clear()

    def finish(self) -> Iterator[None]:
        """All has been read."""
        return self._items.finish()

    def _refuse_type(self, *_: Any) -> None:
        raise InvalidArgument("the XML has a document type or entities; leave them out")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._since_mark = 0
        name = tag.rpartition(":")[2]
        if len(self._open) + len(self._part) + self._skipped >= DEPTH_MAX:
            raise InvalidArgument(f"the XML has more than {DEPTH_MAX} elements within each other")
        if self._part:
            self._count(sum(len(each) + len(value) for each, value in attributes.items()) + len(name))
            self._part[-1].children.append(_Element(name, attributes))
            self._part.append(self._part[-1].children[-1])
        elif self._skipped or not self._enter(name, attributes):
            self._skipped += 1

    def _enter(self, name: str, attributes: dict[str, str]) -> bool:
        """Begin something that is read. Returns whether it is."""
        within = self._open[-1] if self._open else ""
        if not within:
            self._open.append(name)
        elif within == ADDRESS:
            if name not in ROUTING_TYPE_NAMES:
                self._items.not_of_address(name, attributes)
                return False
            self._items.routing_type(name)
            self._open.append(name)
        elif within in ROUTING_TYPE_NAMES:
            if name != QUEUE:
                self._items.not_of_address(name, attributes)
                return False
            self._begin(name, attributes)
        elif name in CONTAINERS:
            self._open.append(name)
        elif name == ADDRESS:
            self._open.append(name)
            self._items.begin_address(attributes.get("name", ""))
        elif name in PARTS:
            self._begin(name, attributes)
        else:
            self._items.refuse(BROKER_XML, _named(name, attributes), NOT_READ)
            return False
        return True

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self._part.append(_Element(name, attributes, self._items.address))
        self._part_bytes = 0

    def _text(self, text: str) -> None:
        self._since_mark = 0
        if self._part:
            self._count(len(text))
            self._part[-1].texts.append(text)

    def _count(self, length: int) -> None:
        self._part_bytes += length
        if self._part_bytes > PART_BYTES_MAX:
            what = _named(self._part[0].name, self._part[0].attributes)
            raise InvalidArgument(f"the XML: {what} has more than {PART_BYTES_MAX} characters; shorten it")

    def _end(self, _tag: str) -> None:
        self._since_mark = 0
        if self._skipped:
            self._skipped -= 1
        elif self._part:
            ended = self._part.pop()
            if not self._part:
                self._ended.append((ended, self._open[-1]))
        elif self._open.pop() == ADDRESS:
            self._items.end_address()


class _Items:
    """Gives the parts of a file to the reading, as a document of ours has them."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.address = ""  # the one that is read now
        self._routing_types: list[str] = []
        self._patterns: dict[str, AddressPattern] = {}
        self._refused = 0
        self._unknown: set[str] = set()  # names of refused settings and arguments
        self._reasons: dict[tuple[str, str, str], str] = {}
        self._elsewhere: list[tuple[str, str]] = []  # queues that are not named as their address, with that

    def refuse(self, kind: str, name: str, reason: str) -> None:
        """List a part that is not taken."""
        self._refused += 1
        if self._refused > REFUSED_MAX:
            raise InvalidArgument(f"the XML has more than {REFUSED_MAX} parts that are not taken; leave them out")
        self._reading.refuse(kind, "", name[:SHOWN_MAX], reason[:SHOWN_MAX])

    def begin_address(self, name: str) -> None:
        """An address begins."""
        self.address = name
        self._routing_types = []

    def routing_type(self, name: str) -> None:
        """The address has this routing type, too."""
        if name not in self._routing_types:
            self._routing_types.append(name)

    def not_of_address(self, name: str, attributes: dict[str, str]) -> None:
        """The address has something else."""
        what = f"{_named(name, attributes)} of address {self.address!r}"
        self.refuse(BROKER_XML, what, "an address has anycast and multicast here, and these have queues")

    def end_address(self) -> None:
        """The address ends; without a routing type it has both. Its queues are read before, and made after it."""
        types = self._routing_types or list(ROUTING_TYPE_NAMES)
        arguments = address_arguments(types)
        self._reading.read("exchanges", {"name": self.address, "type": ADDRESS_TYPE, "arguments": arguments})

    def part(self, element: _Element, within: str) -> Iterator[None]:
        """A part has ended; after each setting of it a caller may give turns."""
        if element.name == QUEUE:
            yield from self._queue(element, within)
        elif element.name == "divert":
            self._divert(element)
        else:
            yield from self._address_setting(element)

    def finish(self) -> Iterator[None]:
        """Name the queues for which other address settings hold here than in Artemis."""
        names: set[str] = set()
        patterns: list[AddressPattern] = []  # with wildcards
        for pattern in self._patterns.values():
            if pattern.literal or set(pattern.kinds) == {LITERAL}:
                names.add(pattern.words[0] if pattern.literal else pattern.text)
            else:
                patterns.append(pattern)
        compared = 0
        for queue, address in self._elsewhere:
            differ = queue in names or address in names
            for pattern in () if differ else patterns:
                differ = pattern.matches(queue) != pattern.matches(address)
                compared += 1
                yield
                if differ:
                    break
            if compared > COMPARED_MAX:
                reason = f"they go by the names of queues here; from {queue!r} on nobody has compared them: too many"
                self.refuse("address settings of a queue", queue, reason)
                return
            if differ:
                reason = (
                    f"address settings of a queue go by its own name here, not by that of its address {address!r}; "
                    f"write them for {queue!r} as well"
                )
                self.refuse("address settings of a queue", queue, reason)
            yield

    def _queue(self, element: _Element, routing_type: str) -> Iterator[None]:
        given = dict(element.attributes)
        name = given.pop("name", "")
        durable = True
        for child in element.children:
            if child.name == FILTER:
                given["selector"] = child.attributes.get("string", "")
            elif child.name == "durable":
                durable = child.text.lower() != "false"
            else:
                given.setdefault(child.name, child.text)
        arguments = yield from self._arguments(name, given)
        self._reading.read("queues", {"name": name, "durable": durable, "arguments": arguments})
        binding = {
            "source": element.address,
            "destination": name,
            "destination_type": TO_QUEUE,
            "arguments": {ROUTING_TYPE: routing_type},
        }
        self._reading.read("bindings", binding)
        if name != element.address:
            self._elsewhere.append((name, element.address))

    def _arguments(self, queue: str, given: dict[str, str]) -> Generator[None, None, dict[str, str]]:
        """Return what a queue is declared with: all together where they fit, else those that do by themselves."""
        arguments: dict[str, str] = {}
        for argument, value in given.items():
            reason = NOT_OF_QUEUES.get(argument, "")
            if (argument, value.lower()) == ("enabled", "true"):
                continue
            if reason:
                self.refuse("queue", f"{queue}: {argument}", reason)
            else:
                arguments[CLEARER.get(argument, argument)] = value
        known = any(self._reasons.get((QUEUE, argument, value)) for argument, value in arguments.items())
        if not known and not _refusal(queue, arguments):
            return arguments
        taken: dict[str, str] = {}
        for argument, value in arguments.items():
            reason = self._reason(QUEUE, argument, value, queue)
            if reason:
                self.refuse("queue", f"{queue}: {argument}", reason)
            else:
                taken[argument] = value
            yield
        return taken

    def _reason(self, kind: str, name: str, value: str, queue: str = "") -> str:
        """Return why an argument of a queue or an address setting cannot be taken; empty when it can."""
        known = self._reasons.get((kind, name, value))
        if known is not None:
            return known
        reason = _refusal(queue, {name: value}) if kind == QUEUE else _refusal_of_setting(name, value)
        if reason:
            self._unknown.add(name)
            if len(self._unknown) > UNKNOWN_NAMES_MAX:
                raise InvalidArgument(
                    f"the XML has settings of more than {UNKNOWN_NAMES_MAX} names that are not taken; leave them out"
                )
        if len(self._reasons) >= REASONS_MAX:
            self._reasons.clear()
        self._reasons[kind, name, value] = reason
        return reason

    def _address_setting(self, element: _Element) -> Iterator[None]:
        match = element.attributes.get("match", "")
        try:
            pattern = AddressPattern(match)
        except CoreError as error:
            self.refuse("address settings", match, str(error))
            return
        settings: dict[str, str] = {}
        for child in element.children:
            name = CLEARER.get(child.name, child.name)
            value = _size(child.text) if name in _SIZES else child.text
            reason = self._reason("address settings", name, value)
            if reason:
                self.refuse("address settings", f"{match}: {child.name}", reason)
            else:
                settings[name] = value
            yield
        self._patterns[match] = pattern
        self._reading.read("address_settings", {"match": match, "settings": settings})

    def _divert(self, element: _Element) -> None:
        given: dict[str, Any] = {"name": element.attributes.get("name", ""), "forwarding_addresses": []}
        for child in element.children:
            if child.name == "forwarding-address":
                given["forwarding_addresses"] += [each.strip() for each in child.text.split(",")]
            elif child.name == "exclusive":
                given["exclusive"] = child.text.lower() == "true"
            elif child.name == "routing-type":
                given["routing_type"] = child.text.lower()
            elif child.name == FILTER:
                given["filter"] = child.attributes.get("string", "")
            elif child.name != "routing-name":
                given[child.name] = child.text
        self._reading.read("diverts", given)


def _named(name: str, attributes: dict[str, str]) -> str:
    named = attributes.get("name", attributes.get("match", ""))
    return f"{name} {named!r}" if named else name


def _refusal(queue: str, arguments: Mapping[str, str]) -> str:
    """Return why a queue cannot have arguments; empty when it can."""
    try:
        parse_queue_arguments(dict(arguments), queue, unknown=REFUSE)
    except CoreError as error:
        return str(error)
    return ""


def _refusal_of_setting(name: str, value: str) -> str:
    """Return why an address setting cannot be taken; empty when it can."""
    try:
        parse_address_settings({name: value})
    except CoreError as error:
        return str(error)
    return ""


def _size(text: str) -> str:
    """Return Artemis's sizes as ours: its ``K``, ``KB`` and ``KiB`` are all 1024 bytes."""
    match = _SIZE.fullmatch(text)
    return text if match is None else f"{match[1]} {match[2]}iB"
