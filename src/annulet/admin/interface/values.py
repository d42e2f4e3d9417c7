"""Values that a request gives: names in its path, query parameters, fields of its body. Each is described once.

The description has the type, the bounds, the default and the meaning. The check of a request and its schema in OpenAPI
come from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from annulet.admin.requests.bodies import INTEGER, INTEGERS, OBJECT, SWITCH, TEXT, TEXTS
from annulet.admin.requests.parameters import INTEGER_MAX, PAGE_SIZE, PAGE_SIZE_MAX
from annulet.admin.requests.responses import ResourceError
from annulet.broker.settings.configuration import nearest_name
from annulet.core.configuration.arguments.values import shown

DIGITS_MAX: Final = 19
"""Digits of an integer of 63 bits."""

SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    TEXT: {"type": "string"},
    INTEGER: {"type": "integer"},
    SWITCH: {"type": "boolean"},
    OBJECT: {"type": "object"},
    TEXTS: {"type": "array", "items": {"type": "string"}},
    INTEGERS: {"type": "array", "items": {"type": "integer"}},
}
"""The JSON schema of each kind of value."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value: its name, its meaning, its kind and bounds.

    ``text`` completes "give ..." in an error. ``least`` and ``most`` are bounds of integers.
    """

    name: str
    text: str
    kind: str = TEXT
    least: int = 0
    most: int = INTEGER_MAX
    default: Any = None
    choices: tuple[str, ...] = ()
    required: bool = False
    example: Any = None

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the value."""
        schema = dict(SCHEMAS[self.kind])
        if self.kind == INTEGER:
            schema |= {"minimum": self.least, "maximum": self.most}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def read(self, text: str) -> Any:
        """Return the value of a query parameter; refuse others than described (400)."""
        if self.kind == INTEGER:
            digits = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
            if not (digits and self.least <= int(text) <= self.most):
                raise ResourceError(
                    400, f"query parameter {self.name}={text!r} is not an integer from {self.least} to {self.most}"
                )
            return int(text)
        if self.kind == SWITCH:
            if text not in {"true", "false"}:
                raise ResourceError(400, f"query parameter {self.name}={text!r} is not true or false")
            return text == "true"
        if self.choices and text not in self.choices:
            hint = nearest_name(text, dict.fromkeys(self.choices))
            raise ResourceError(400, f"query parameter {self.name}={text!r} is unknown{hint}")
        return text

    def check(self, value: Any) -> None:
        """Refuse a field of a body that is out of bounds (400); it has the right kind."""
        if self.kind == INTEGER and not self.least <= value <= self.most:
            raise ResourceError(
                400, f"field {self.name!r} is {value}; give an integer from {self.least} to {self.most}"
            )
        if self.choices and value not in self.choices:
            hint = nearest_name(value, dict.fromkeys(self.choices))
            raise ResourceError(400, f"field {self.name!r}: unknown value {shown(value)}{hint}")


PAGE: Final = Value("page", "the number of the wanted page", INTEGER, 1, 1_000_000_000, 1)
SIZE: Final = Value("page_size", "the items of a page", INTEGER, 1, PAGE_SIZE_MAX, PAGE_SIZE)
PAGES: Final = (PAGE, SIZE)
"""The parameters of every list."""

VHOST: Final = Value("vhost", "a virtual host, for what is in it only", example="/")
NAME_PART: Final = Value("name", "a part of the name")
SINCE: Final = Value("since", "the earliest time, milliseconds since 1970", INTEGER, default=0)
UNTIL: Final = Value("until", "the latest time, milliseconds since 1970", INTEGER, default=INTEGER_MAX)
