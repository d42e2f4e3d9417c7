"""The settings of a broker at start: from command line, environment, TOML file and defaults, in this order.

:func:`load` reads and checks; :class:`BrokerConfiguration` is the result, with every value valid. Keyword arguments of
``BrokerConfiguration`` are the way in for embedders and tests.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from annulet.broker.settings.environment import Variables, variable_of
from annulet.broker.settings.limits import RANGES, Limits
from annulet.broker.settings.oidc_settings import OidcSection, OidcSettings, OidcSettingsError, oidc_settings
from annulet.broker.settings.otlp_settings import OtlpSection, OtlpSettings, OtlpSettingsError, otlp_settings
from annulet.broker.settings.scram_verifiers import ScramError, parse_verifier
from annulet.broker.settings.setting_values import (
    LOOPBACK,
    ConfigurationError,
    Endpoint,
    StartError,
    machine_memory_bytes,
    merge,
    parse_endpoint,
    parse_memory,
    parse_patterns,
)
from annulet.broker.settings.static_definitions import (
    AddressDefinition,
    BindingDefinition,
    DefinitionError,
    DivertDefinition,
    ExchangeDefinition,
    PolicyDefinition,
    QueueDefinition,
    StaticDefinitions,
)
from annulet.broker.settings.tls_settings import TLS_LISTENERS, TlsSection, TlsSettings, TlsSettingsError, settings_of
from annulet.core.base.errors import InvalidArgument
from annulet.core.base.linear_expressions import ExpressionError, LinearExpression
from annulet.core.base.uri_texts import why_no_path
from annulet.core.configuration.arguments.values import MILLISECONDS_MAX, refuse_line_breaks
from annulet.residency.bodies.budget import BODY_BUDGET_BYTES, BODY_BUDGET_LEAST

__all__ = [
    "LOOPBACK",
    "BrokerConfiguration",
    "ConfigurationError",
    "Endpoint",
    "PermissionDeclaration",
    "StartError",
    "UserDeclaration",
    "load",
    "machine_memory_bytes",
    "nearest_name",
    "parse_endpoint",
    "parse_memory",
]

AMQP_PORT: Final = 5672
"""IANA's port of AMQP; 0-9-1 and 1.0 share it and are told apart by the protocol header."""
STOMP_PORT: Final = 61613
"""The port STOMP clients expect; RabbitMQ, ActiveMQ and Artemis have it too."""
HTTP_PORT: Final = 8161
BULK_PORT: Final = 8815
TLS_PORTS: Final = {"amqps": 5671, "stomps": 61_614, "https": 8162, "bulks": 8816}
"""IANA's port of AMQP over TLS, ActiveMQ's of STOMP over TLS, and one more than the plain port."""
DATA_DIRECTORY: Final = Path("annulet-data")

HEARTBEAT: Final = 60
"""Seconds; RabbitMQ's default. Short enough to find a dead peer before a load balancer forgets the connection."""
FRAME_MAX: Final = 131_072
"""Bytes; RabbitMQ's default, which clients are tuned to."""
FRAME_MAX_LEAST: Final = 4096
"""Bytes; AMQP 0-9-1 §4.2.3, frame-min-size."""
FRAME_MAX_MOST: Final = 16 * 1024 * 1024
"""Bytes. A frame is held whole; larger ones let a few connections fill the memory."""
CHANNEL_MAX: Final = 2047
"""Channels of a connection; RabbitMQ's default."""
HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds from accept to connection.open; RabbitMQ's ``handshake_timeout``."""
CONSUMER_TIMEOUT: Final = 0
"""Milliseconds a delivery may be held unless something else is set; 0: for ever. RabbitMQ has 30 minutes, which end
Celery's workers with longer countdowns."""
UNDO_SECONDS: Final = 3600
"""Time that an undo has: an error is noticed within minutes of the answer, and an hour covers the change of a shift."""

UNDO_SECONDS_MAX: Final = 7 * 24 * 3600

UNDO_BYTES: Final = 64 * 1024 * 1024
"""Bytes of kept messages in one virtual host: an hour of deletions by hand. The log is longer by as much."""

EVENT_QUEUE_BYTES: Final = 64 * 1024 * 1024
"""Bodies the event queue holds before the oldest go: the lives of some 250,000 messages, in memory until they are
read."""
EVENT_QUEUE_BYTES_LEAST: Final = 1024 * 1024
MEMORY_SHARE: Final = 0.4
"""Share of the machine's memory after which publishers are held back; RabbitMQ's classic high watermark."""
MEMORY_LIMIT_LEAST: Final = 32 * 1024 * 1024
"""Bytes. The interpreter and its libraries need this much before the first message."""
BUDGET_SHARE: Final = 0.5
"""Share of the memory limit that the body budget is unless it is set, where that is less than its usual default: on a
machine of 1 GiB publishers would else be held back before anything had left memory."""

SASL_MECHANISMS: Final = (
    "EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "AMQPLAIN", "OAUTHBEARER", "XOAUTH2", "ANONYMOUS",
)  # fmt: skip
"""All there are; each is offered where it can be used. Without the SCRAM ones no verifiers are stored."""

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
UnknownArguments = Literal["warn", "refuse"]


class PermissionDeclaration(msgspec.Struct, frozen=True):
    """Regular expressions for names of exchanges and queues, as in RabbitMQ; an empty one matches nothing.

    ``browse`` (look at messages) and ``manage`` (operations on messages) are beside RabbitMQ's three.
    """

    configure: str = ""
    write: str = ""
    read: str = ""
    browse: str = ""
    manage: str = ""


class FirstUser(msgspec.Struct, frozen=True):
    """The administrator that the first start makes in place of ``guest``, allowed to connect from everywhere."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"FirstUser({self.name!r})"  # the password stays out of logs


class UserDeclaration(msgspec.Struct, frozen=True):
    """A user of the file: created or brought up to date at every start."""

    password_hash: str
    tags: tuple[str, ...] = ()
    permissions: dict[str, PermissionDeclaration] = {}  # by virtual host
    scram: tuple[str, ...] = ()  # texts of SCRAM verifiers


class BrokerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a broker is told at start. ``data_directory`` of ``None`` keeps all state in memory."""

    data_directory: Path | None = DATA_DIRECTORY
    amqp: Endpoint = Endpoint(LOOPBACK, AMQP_PORT)
    stomp: Endpoint | None = Endpoint(LOOPBACK, STOMP_PORT)  # None: no STOMP but over WebSocket
    http: Endpoint | None = Endpoint(LOOPBACK, HTTP_PORT)  # None: no HTTP
    bulk: Endpoint | None = Endpoint(LOOPBACK, BULK_PORT)  # None: no Arrow Flight, no Spark
    amqps: Endpoint | None = None  # the TLS listeners beside the plain ones
    stomps: Endpoint | None = None
    https: Endpoint | None = None
    bulks: Endpoint | None = None
    tls: dict[str, TlsSettings] = {}  # by the names of TLS listeners: amqps, stomps, https, bulks
    limits: Limits = Limits()
    sasl_mechanisms: tuple[str, ...] = SASL_MECHANISMS
    local_host_names: tuple[str, ...] = ()  # names of this machine that HTTP takes for local, beside localhost
    web_socket_origins: tuple[str, ...] = ()  # whose pages may open one, beside those of this machine; "*": all
    bulk_required: bool = False  # bulk was asked for by name: without pyarrow the start fails
    heartbeat: int = HEARTBEAT  # seconds; 0 switches heartbeats off
    frame_max: int = FRAME_MAX  # bytes
    channel_max: int = CHANNEL_MAX
    handshake_timeout: float = HANDSHAKE_TIMEOUT  # seconds
    memory_limit_bytes: int = msgspec.field(default_factory=lambda: int(machine_memory_bytes() * MEMORY_SHARE))
    body_budget_bytes: int = BODY_BUDGET_BYTES
    spill_limit_bytes: int | None = None  # 0: nothing is spilled; None: half of the free disk, 10 GiB at most
    search_process: bool = True  # one looks ahead of selectors in deep queues
    consumer_timeout: int = CONSUMER_TIMEOUT  # milliseconds; 0: deliveries may be held for ever
    unknown_arguments: UnknownArguments = "warn"  # queue arguments that change nothing here
    log_format: LogFormat = "console"
    log_level: LogLevel = "info"
    users: dict[str, UserDeclaration] = {}
    first_user: FirstUser | None = None  # None: guest
    loopback_users: tuple[str, ...] = ("guest",)  # may connect from this machine only
    ledger_queue: bool = False  # each virtual host has a queue amq.ledger that gets its losses as messages
    event_queues: tuple[str, ...] = ()  # patterns of the queues whose events become messages of amq.events
    event_queue_bytes: int = EVENT_QUEUE_BYTES  # bodies amq.events holds
    undo_seconds: int = UNDO_SECONDS  # what operations take away is kept so long; 0: nothing is kept
    undo_bytes: int = UNDO_BYTES  # of a virtual host
    otlp: OtlpSettings | None = None  # the collector that gets metrics and spans
    oidc: OidcSettings | None = None  # the issuer whose access tokens log in
    definitions: StaticDefinitions = StaticDefinitions()  # declared at every start
    origins: dict[str, str] = {}  # by name in the file: where a value comes from that is not the default


# ---------------------------------------------------------------------- the file's shape


class ListenersSection(msgspec.Struct):
    """``[listeners]``: HOST:PORT or PORT each; ``stomp``, ``http`` and ``bulk`` may be ``"off"``.

    ``amqps``, ``stomps``, ``https`` and ``bulks`` speak TLS, are off unless given, and need ``[tls]``.
    """

    amqp: int | str | None = None
    stomp: int | str | None = None
    http: int | str | None = None
    bulk: int | str | None = None
    amqps: int | str | None = None
    stomps: int | str | None = None
    https: int | str | None = None
    bulks: int | str | None = None


class LogSection(msgspec.Struct):
    """``[log]``."""

    format: LogFormat = "console"
    level: LogLevel = "info"


class UserSection(msgspec.Struct):
    """``[users.NAME]``; without ``permissions`` the user may open no virtual host."""

    password_hash: str
    tags: list[str] = []
    permissions: dict[str, PermissionDeclaration] = {}
    scram_sha_256: str | None = None
    scram_sha_512: str | None = None


class ConfigurationFile(msgspec.Struct):
    """The TOML file. :func:`load`'s ``command_line`` has the same shape."""

    data: str | None = None
    memory: bool = False
    memory_limit: int | str | None = None
    body_budget: int | str | None = None
    spill_limit: int | str | None = None
    search_process: bool = True
    consumer_timeout: int = CONSUMER_TIMEOUT
    unknown_arguments: UnknownArguments = "warn"
    heartbeat: int = HEARTBEAT
    frame_max: int = FRAME_MAX
    channel_max: int = CHANNEL_MAX
    handshake_timeout: float = HANDSHAKE_TIMEOUT
    default_user: str | None = None
    default_password: str | None = None
    loopback_users: list[str] = msgspec.field(default_factory=lambda: ["guest"])
    local_host_names: list[str] = []
    web_socket_origins: list[str] = []
    ledger_queue: bool = False
    event_queues: list[str] = []
    event_queue_bytes: int | str = EVENT_QUEUE_BYTES
    undo_seconds: int = UNDO_SECONDS
    undo_bytes: int | str = UNDO_BYTES
    listeners: ListenersSection = msgspec.field(default_factory=ListenersSection)
    tls: TlsSection = msgspec.field(default_factory=TlsSection)
    limits: Limits = msgspec.field(default_factory=Limits)
    sasl_mechanisms: list[str] = msgspec.field(default_factory=lambda: list(SASL_MECHANISMS))
    log: LogSection = msgspec.field(default_factory=LogSection)
    users: dict[str, UserSection] = {}
    otlp: OtlpSection = msgspec.field(default_factory=OtlpSection)
    oidc: OidcSection = msgspec.field(default_factory=OidcSection)
    queues: list[QueueDefinition] = []
    exchanges: list[ExchangeDefinition] = []
    bindings: list[BindingDefinition] = []
    addresses: list[AddressDefinition] = []
    diverts: list[DivertDefinition] = []
    policies: list[PolicyDefinition] = []
    address_settings: list[dict[str, Any]] = []


TAGS: Final = ("administrator", "monitoring", "management", "policymaker", "impersonator")
"""Of users. Those RabbitMQ knows beside the first three give nothing here; definitions that name them are taken."""

OPTIONS: Final = {
    "data": "--data",
    "memory": "--memory",
    "memory_limit": "--memory-limit",
    "body_budget": "--body-budget",
    "spill_limit": "--spill-limit",
    "heartbeat": "--heartbeat",
    "listeners.amqp": "--amqp",
    "listeners.stomp": "--stomp",
    "listeners.http": "--http",
    "listeners.bulk": "--bulk",
    **{f"listeners.{name}": f"--{name}" for name in TLS_LISTENERS},
    "log.format": "--log-format",
    "log.level": "--log-level",
}
"""The settings that are command line options too, by their place in the file."""


# ---------------------------------------------------------------------- reading


def load(
    file: Path | None = None,
    command_line: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> BrokerConfiguration:
    """Merge command line, environment, file and defaults, check every value and return the configuration.

    ``command_line`` has the shape of the file; ``environment`` are variables, of which those that begin with
    ``ANNULET_`` are read. Raises :class:`ConfigurationError`.
    """
    given: Mapping[str, Any] = {} if command_line is None else command_line
    return _Reader(file, given, {} if environment is None else environment).read()


def _flat_names(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of given settings, those of a section with its name before."""
    for name, value in given.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name


class _Reader:
    """One run of :func:`load`; knows which source a value came from, for the errors."""

    def __init__(self, file: Path | None, command_line: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.file = file
        self.command_line = command_line
        self.variables = Variables(environment, ConfigurationFile)
        self.document = {} if file is None else _read_document(file)

    def read(self) -> BrokerConfiguration:
        shape = msgspec.inspect.type_info(ConfigurationFile)
        self._check_names(self.document, shape, "", f"{self.file}")
        self._check_names(self.variables.document, shape, "", "environment")
        _refuse_data_and_memory(self.document, str(self.file))
        _refuse_data_and_memory(self.variables.document, "environment")
        _refuse_data_and_memory(self.command_line, "command line")
        merged = _laid_over(_laid_over(self.document, self.variables.document), self.command_line)
        try:
            values = msgspec.convert(merged, ConfigurationFile)
        except msgspec.ValidationError as error:
            raise self._conversion_error(error) from error
        return self._configuration(values)

    def _configuration(self, values: ConfigurationFile) -> BrokerConfiguration:
        self._check_range("heartbeat", values.heartbeat, 0, 65_535, "seconds")
        self._check_range("frame_max", values.frame_max, FRAME_MAX_LEAST, FRAME_MAX_MOST, "bytes")
        self._check_range("channel_max", values.channel_max, 1, 65_535, "channels")
        self._check_range("handshake_timeout", values.handshake_timeout, 0.1, 3600, "seconds")
        self._check_range("consumer_timeout", values.consumer_timeout, 0, MILLISECONDS_MAX, "milliseconds")
        self._check_range("undo_seconds", values.undo_seconds, 0, UNDO_SECONDS_MAX, "seconds")
        wrong = why_no_path(values.data or "")
        if wrong:
            raise ConfigurationError(f"{self._source('data')}: {wrong}")
        data = DATA_DIRECTORY if values.data is None else self._path("data", values.data)
        amqp = self._endpoint("listeners.amqp", values.listeners.amqp, Endpoint(LOOPBACK, AMQP_PORT))
        if amqp is None:
            raise ConfigurationError(f"{self._source('listeners.amqp')}: the AMQP listener cannot be switched off")
        return BrokerConfiguration(
            data_directory=None if values.memory else data,
            amqp=amqp,
            stomp=self._endpoint("listeners.stomp", values.listeners.stomp, Endpoint(LOOPBACK, STOMP_PORT)),
            http=self._endpoint("listeners.http", values.listeners.http, Endpoint(LOOPBACK, HTTP_PORT)),
            bulk=self._endpoint("listeners.bulk", values.listeners.bulk, Endpoint(LOOPBACK, BULK_PORT)),
            bulk_required=values.listeners.bulk is not None or values.listeners.bulks is not None,
            **self._tls(values),
            limits=self._limits(values.limits),
            sasl_mechanisms=self._mechanisms(values.sasl_mechanisms),
            heartbeat=values.heartbeat,
            frame_max=values.frame_max,
            channel_max=values.channel_max,
            handshake_timeout=values.handshake_timeout,
            **self._memory(values.memory_limit, values.body_budget),
            spill_limit_bytes=None if values.spill_limit is None else self._bytes("spill_limit", values.spill_limit, 0),
            search_process=values.search_process,
            consumer_timeout=values.consumer_timeout,
            unknown_arguments=values.unknown_arguments,
            log_format=values.log.format,
            log_level=values.log.level,
            users={name: self._user(name, section) for name, section in values.users.items()},
            first_user=self._first_user(values.default_user, values.default_password),
            oidc=self._oidc(values.oidc),
            otlp=self._otlp(values.otlp),
            loopback_users=tuple(values.loopback_users),
            local_host_names=tuple(name.lower() for name in values.local_host_names),
            web_socket_origins=tuple(values.web_socket_origins),
            ledger_queue=values.ledger_queue,
            event_queues=parse_patterns(self._source("event_queues"), values.event_queues),
            event_queue_bytes=self._bytes("event_queue_bytes", values.event_queue_bytes, EVENT_QUEUE_BYTES_LEAST),
            undo_seconds=values.undo_seconds,
            undo_bytes=self._bytes("undo_bytes", values.undo_bytes, 0),
            definitions=self._definitions(values),
            origins=self._origins(),
        )

    def _origins(self) -> dict[str, str]:
        """Return where each given value comes from, by its name in the file: the last source that gives it."""
        of_file = dict.fromkeys(_flat_names(self.document), f"file {self.file}")
        of_command_line = dict.fromkeys(_flat_names(self.command_line), "command line")
        return of_file | self.variables.origins() | of_command_line

    @property
    def _folder(self) -> Path:
        """The base of relative paths in the file; the broker may be started from anywhere."""
        return Path() if self.file is None else self.file.absolute().parent

    def _path(self, name: str, text: str) -> Path:
        """Return a path as its source means it: one in the file is relative to the file, others to where it starts."""
        path = Path(text).expanduser()
        of_file = name not in self.command_line and self.variables.name_of(name) is None
        return self._folder / path if of_file else path

    def _tls(self, values: ConfigurationFile) -> dict[str, Any]:
        """Return endpoint and settings of the TLS listeners that were asked for, as fields of the configuration."""
        fields: dict[str, Any] = {"tls": {}}
        for name in TLS_LISTENERS:
            text = getattr(values.listeners, name)
            endpoint = self._endpoint(
                f"listeners.{name}", "off" if text is None else text, Endpoint("", TLS_PORTS[name])
            )
            fields[name] = endpoint
            if endpoint is not None:
                try:
                    fields["tls"][name] = settings_of(values.tls, name, self._folder)
                except TlsSettingsError as error:
                    raise ConfigurationError(f"{self._source(f'listeners.{name}')}: {error}") from error
        return fields

    def _oidc(self, section: OidcSection) -> OidcSettings | None:
        try:
            return oidc_settings(section, TAGS, self._folder)
        except OidcSettingsError as error:
            raise ConfigurationError(str(error) if self.file is None else f"{self.file}: {error}") from error

    def _otlp(self, section: OtlpSection) -> OtlpSettings | None:
        try:
            return otlp_settings(section, self._folder)
        except OtlpSettingsError as error:
            raise ConfigurationError(str(error) if self.file is None else f"{self.file}: {error}") from error

    def _limits(self, limits: Limits) -> Limits:
        for name, allowed in RANGES.items():
            self._check_range(f"limits.{name}", getattr(limits, name), allowed.least, allowed.most, allowed.unit)
        if limits.login_delay_most < limits.login_delay_first:
            raise ConfigurationError(
                f"{self._source('limits.login_delay_most')}: {limits.login_delay_most} is below login_delay_first, "
                f"{limits.login_delay_first} seconds"
            )
        return limits

    def _mechanisms(self, names: list[str]) -> tuple[str, ...]:
        for name in names:
            if name not in SASL_MECHANISMS:
                raise ConfigurationError(
                    f"{self._source('sasl_mechanisms')}: unknown mechanism {name!r}"
                    f"{nearest_name(name, dict.fromkeys(SASL_MECHANISMS))}"
                )
        if not names:
            raise ConfigurationError(f"{self._source('sasl_mechanisms')}: empty; no client could log in")
        return tuple(names)

    def _definitions(self, values: ConfigurationFile) -> StaticDefinitions:
        definitions = StaticDefinitions(
            source="configuration" if self.file is None else str(self.file),
            queues=values.queues,
            exchanges=values.exchanges,
            bindings=values.bindings,
            addresses=values.addresses,
            diverts=values.diverts,
            policies=values.policies,
            address_settings=values.address_settings,
        )
        try:
            definitions.check()
        except DefinitionError as error:
            raise ConfigurationError(f"{self.file}: {error}") from error
        return definitions

    def _user(self, name: str, section: UserSection) -> UserDeclaration:
        where = f"users.{name}"
        if not section.password_hash.startswith("$argon2"):
            raise ConfigurationError(
                f"{self._source(where)}: password_hash is not an Argon2 hash; make one with `annulet password-hash`"
            )
        for tag in section.tags:
            if tag not in TAGS:
                raise ConfigurationError(
                    f"{self._source(where)}.tags: unknown tag {tag!r}{nearest_name(tag, dict.fromkeys(TAGS))}"
                )
        for host, permission in section.permissions.items():
            try:
                refuse_line_breaks("virtual host", host)
            except InvalidArgument as error:
                raise ConfigurationError(f"{self._source(where)}.permissions: {error}") from error
            for kind in permission.__struct_fields__:
                try:
                    LinearExpression(getattr(permission, kind))
                except ExpressionError as error:
                    source = self._source(f"{where}.permissions.{host}.{kind}")
                    raise ConfigurationError(f"{source}: not a regular expression that can be used: {error}") from error
        scram = self._verifiers(where, section)
        return UserDeclaration(section.password_hash, tuple(section.tags), dict(section.permissions), scram)

    def _first_user(self, name: str | None, password: str | None) -> FirstUser | None:
        if name is None and password is None:
            return None
        for given, field, other in (
            (name, "default_user", "default_password"),
            (password, "default_password", "default_user"),
        ):
            if not given:
                raise ConfigurationError(f"{self._source(field)}: empty or left out; {other} needs it beside it")
        return FirstUser(str(name), str(password))

    def _verifiers(self, where: str, section: UserSection) -> tuple[str, ...]:
        texts = []
        for field, text in (("scram_sha_256", section.scram_sha_256), ("scram_sha_512", section.scram_sha_512)):
            if text is None:
                continue
            source = self._source(f"{where}.{field}")
            try:
                mechanism = parse_verifier(text).mechanism
            except ScramError as error:
                raise ConfigurationError(f"{source}: {error}") from error
            if mechanism != field.upper().replace("_", "-"):
                raise ConfigurationError(f"{source}: the verifier is for {mechanism}")
            texts.append(text)
        return tuple(texts)

    def _endpoint(self, path: str, given: int | str | None, default: Endpoint) -> Endpoint | None:
        if given is None:
            return default
        text = str(given)
        if text == "off":
            return None
        try:
            return parse_endpoint(text, default.port)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self._source(path)}: {error}") from error

    def _memory(self, limit: int | str | None, budget: int | str | None) -> dict[str, Any]:
        """Return limit of the memory and budget of bodies as fields of the configuration."""
        share = int(machine_memory_bytes() * MEMORY_SHARE)
        most = share if limit is None else self._bytes("memory_limit", limit, MEMORY_LIMIT_LEAST)
        usual = min(BODY_BUDGET_BYTES, int(most * BUDGET_SHARE))
        bodies = usual if budget is None else self._bytes("body_budget", budget, BODY_BUDGET_LEAST)
        return {"memory_limit_bytes": most, "body_budget_bytes": bodies}

    def _bytes(self, path: str, value: int | str, least: int) -> int:
        try:
            size = parse_memory(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self._source(path)}: {error}") from error
        self._check_range(path, size, least, 1 << 50, "bytes")
        return size

    def _check_range(self, path: str, value: float, least: float, most: float, unit: str) -> None:
        if not least <= value <= most:
            raise ConfigurationError(f"{self._source(path)}: {value} is not within {least} to {most} {unit}")

    def _source(self, path: str) -> str:
        """Name a setting the way the user wrote it."""
        node: Any = self.command_line
        for part in path.split("."):
            node = node.get(part) if isinstance(node, Mapping) else None
        if node is not None:
            return OPTIONS.get(path, path)
        variable = self.variables.name_of(path)
        if variable is not None:
            return f"environment {variable}" + ("" if variable.startswith(variable_of(path)) else f": {path}")
        return path if self.file is None else f"{self.file}: {path}"

    def _conversion_error(self, error: msgspec.ValidationError) -> ConfigurationError:
        text, _, place = str(error).partition(" - at `$.")
        path = place.rstrip("`")
        if not path:
            return ConfigurationError(f"{self.file}: {text}")
        return ConfigurationError(f"{self._source(path)}: {text[:1].lower()}{text[1:]}{_choices_at(path)}")

    def _check_names(self, value: Any, kind: msgspec.inspect.Type, path: str, source: str) -> None:
        """Refuse names the file's shape does not have, with the nearest one that it has."""
        if isinstance(value, list) and isinstance(kind, msgspec.inspect.ListType):
            for index, member in enumerate(value):
                self._check_names(member, kind.item_type, f"{path.removesuffix('.')}[{index}].", source)
        if not isinstance(value, dict):
            return
        if isinstance(kind, msgspec.inspect.DictType):
            for name, member in value.items():
                self._check_names(member, kind.value_type, f"{path}{name}.", source)
        elif isinstance(kind, msgspec.inspect.StructType):
            fields = {field.encode_name: field.type for field in kind.fields}
            for name, member in value.items():
                if name not in fields:
                    raise ConfigurationError(f"{source}: unknown setting {path + name!r}{nearest_name(name, fields)}")
                self._check_names(member, fields[name], f"{path}{name}.", source)


def _choices_at(path: str) -> str:
    """Return ``"; known here: ..."`` when a place such as ``bindings[0].destination_type`` has one of few values."""
    kind: msgspec.inspect.Type = msgspec.inspect.type_info(ConfigurationFile)
    for part in re.findall(r"\[[^\]]*\]|[^.\[\]]+", path):  # [0] is a list's member, [...] one of a table
        if isinstance(kind, msgspec.inspect.StructType):
            kind = {field.encode_name: field.type for field in kind.fields}[part]
        elif isinstance(kind, msgspec.inspect.DictType):
            kind = kind.value_type
        elif isinstance(kind, msgspec.inspect.ListType):
            kind = kind.item_type
    kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)  # a union: or nothing
    values = [value for kind in kinds if isinstance(kind, msgspec.inspect.LiteralType) for value in kind.values]
    return f"; known here: {', '.join(map(str, values))}" if values else ""


def nearest_name(name: str, known: Mapping[str, Any]) -> str:
    """Return ``"; did you mean ...?"``, or the known names when none is near."""
    nearest = difflib.get_close_matches(name, known, n=1) or [full for full in known if name and full.startswith(name)]
    if nearest:
        return f"; did you mean {nearest[0]!r}?"
    return f"; known here: {', '.join(sorted(known))}"


def _read_document(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration file {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: not UTF-8 text: {error}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: not TOML: {error}") from error


def _laid_over(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``low`` with ``high`` put over it; data and memory exclude each other, and that of ``high`` holds."""
    merged = merge(low, high)
    if "memory" in high:
        merged.pop("data", None)
    elif "data" in high:
        merged.pop("memory", None)
    return merged


def _refuse_data_and_memory(document: Mapping[str, Any], source: str) -> None:
    if document.get("memory") and document.get("data") is not None:
        raise ConfigurationError(
            f"{source}: data and memory exclude each other; a broker in memory has no data directory"
        )
