"""Settings from the environment, as containers are configured: ``ANNULET_LISTENERS_AMQP=0.0.0.0:5672``.

The variable of a setting is ``ANNULET_`` and the setting's place in the file in capitals, dots as underscores. The same
name with ``_FILE`` names a file that holds the value, for secrets. A list of texts may be written with commas; tables
and lists of tables are JSON.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from annulet.broker.settings.setting_values import ConfigurationError

PREFIX: Final = "ANNULET_"
FROM_FILE: Final = "_FILE"

OTHER_VARIABLES: Final = frozenset(
    {
        "ANNULET_BUILD_CACHE",
        "ANNULET_COMPLETE",
        "ANNULET_CONTEXT",
        "ANNULET_LOAD_GENERATOR_DIR",
        "ANNULET_PASSWORD",
        "ANNULET_PURE",
        "ANNULET_URL",
        "ANNULET_USER",
    }
)
"""Variables of the command line against a running broker and of the build: no settings of a broker."""

OTHER_PATTERN: Final = re.compile(
    r"ANNULET_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_[0-9]+_(?:TCP|UDP)(?:_[A-Z]+)?)?)"
    r"|ANNULET_(?:TEST|FUZZ|SCHEMATHESIS)_[A-Z0-9_]+|ANNULET_(?:DEATHS|DRIVER|KILL_SECONDS|RANDOM_EVENTS)"
)
"""Kubernetes gives every container such variables for a service named ``annulet`` or ``annulet-…``; and the tests'."""

PATH_FIELDS: Final = frozenset({"certificate", "key", "client_ca", "ca_file"})
"""Paths of ``[tls]``, ``[oidc]`` and ``[otlp]``: in the environment relative to the working directory, not the file."""

VALUE_BYTES_MAX: Final = 1024 * 1024
"""Of a file that holds a value: a list of a few thousand queues."""


class Variables:
    """The settings of one shape that the environment gives, in the shape of the file."""

    def __init__(self, environment: Mapping[str, str], shape: type[msgspec.Struct]) -> None:
        """Read the variables. Raises :class:`ConfigurationError` that names the variable, its value and the remedy."""
        self._kinds = dict(_leaves(msgspec.inspect.type_info(shape), ""))
        self._paths = {variable_of(path): path for path in self._kinds}
        self._names: dict[str, str] = {}  # the variables that were given, by path
        self.document: dict[str, Any] = {}
        for name in sorted(name for name in environment if name.startswith(PREFIX)):
            if name not in OTHER_VARIABLES and OTHER_PATTERN.fullmatch(name) is None:
                self._read(name, environment[name])

    def name_of(self, path: str) -> str | None:
        """Return the variable that gives a setting, or a setting within it; ``None``: the environment does not."""
        parts = re.split(r"[.\[]", path)
        for given, name in self._names.items():
            place = given.split(".")
            if parts[: len(place)] == place:
                return name
        return None

    def origins(self) -> dict[str, str]:
        """Return the source of each given setting by its name in the file."""
        return {path: f"environment {name}" for path, name in self._names.items()}

    def _read(self, name: str, text: str) -> None:
        path = self._paths.get(name)
        if path is None:
            path = self._paths.get(name.removesuffix(FROM_FILE))
            if path is None:
                raise ConfigurationError(f"environment: unknown setting {name!r}{self._nearest(name)}")
            text = _content(name, text)
        if path in self._names:
            raise ConfigurationError(f"environment: {self._names[path]} and {name} exclude each other")
        self._names[path] = name
        *sections, field = path.split(".")
        place = self.document
        for section in sections:
            place = place.setdefault(section, {})
        place[field] = self._value(name, path, text)

    def _value(self, name: str, path: str, text: str) -> Any:
        kind = self._kinds[path]
        if isinstance(kind, msgspec.inspect.ListType) and not text.lstrip().startswith("["):
            return [item.strip() for item in text.split(",") if item.strip()]
        if isinstance(kind, msgspec.inspect.ListType | msgspec.inspect.DictType):
            try:
                return msgspec.json.decode(text)
            except msgspec.DecodeError as error:
                raise ConfigurationError(f"environment: {name}: not JSON: {error}") from error
        if path.rpartition(".")[2] in PATH_FIELDS:
            return str(Path(text).expanduser().absolute())
        return _scalar(name, text, kind)

    def _nearest(self, name: str) -> str:
        names = [known.removeprefix(PREFIX) for known in self._paths]
        near = difflib.get_close_matches(name.removeprefix(PREFIX), names, n=1)
        return f"; did you mean {PREFIX + near[0]!r}?" if near else "; settings are listed in docs/operation.md"


def variable_of(path: str) -> str:
    """Return the variable of a setting: ``log.level`` is ``ANNULET_LOG_LEVEL``."""
    return PREFIX + path.replace(".", "_").upper()


def _leaves(kind: msgspec.inspect.Type, path: str) -> Iterator[tuple[str, msgspec.inspect.Type]]:
    """Yield place and type of every setting; a section is a table with fixed names."""
    if isinstance(kind, msgspec.inspect.StructType):
        for field in kind.fields:
            yield from _leaves(field.type, f"{path}.{field.encode_name}" if path else field.encode_name)
    else:
        yield path, kind


def _scalar(name: str, text: str, kind: msgspec.inspect.Type) -> Any:
    """Return a text as the value it stands for. A wrong choice stays a text, which the file's check refuses."""
    kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    if any(isinstance(each, msgspec.inspect.StrType | msgspec.inspect.LiteralType) for each in kinds):
        return text  # of number or text, such as a port or an amount: these read texts too
    for each, plain in (
        (msgspec.inspect.BoolType, bool),
        (msgspec.inspect.IntType, int),
        (msgspec.inspect.FloatType, float),
    ):
        if any(isinstance(one, each) for one in kinds):
            try:
                return msgspec.convert(text.strip(), plain, strict=False)
            except msgspec.ValidationError as error:
                word = {bool: "true or false", int: "an integer", float: "a number"}[plain]
                raise ConfigurationError(f"environment: {name}={text[:80]!r} is not {word}") from error
    return text


def _content(name: str, file: str) -> str:
    """Return the value that a file holds, without the line end that editors add."""
    try:
        with Path(file).expanduser().open(encoding="utf-8") as stream:
            text = stream.read(VALUE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigurationError(f"environment: {name}: cannot read {file!r}: {reason}") from error
    if len(text) > VALUE_BYTES_MAX:
        raise ConfigurationError(f"environment: {name}: {file!r} has more than {VALUE_BYTES_MAX} characters")
    return text.removesuffix("\n").removesuffix("\r")
