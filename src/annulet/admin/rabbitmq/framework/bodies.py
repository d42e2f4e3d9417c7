"""JSON bodies of requests, read as RabbitMQ reads them: ``"true"`` is true, ``"5"`` is 5. Errors name the field."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.bodies import MEMBERS_BYTES_MAX, arguments_of, read_object
from annulet.admin.requests.responses import bad_request, missing_field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.core.configuration.arguments import Arguments

SWITCHES: Final = {True: True, False: False, "true": True, "false": False}

ADDRESSING: Final = frozenset(
    {"vhost", "name", "node", "exchange", "queue", "source", "destination", "destination_type", "component"}
)
"""Fields that clients repeat in the body: the path has said them already, or one node has no use for them."""

INTEGER_MAX: Final = (1 << 63) - 1


class Fields:
    """The fields of a body. Each method reads one, with its default where it is missing."""

    def __init__(self, members: dict[str, Any]) -> None:
        self.members = members

    def given(self, name: str) -> bool:
        """Return whether the body has the field, and not as null."""
        return self.members.get(name) is not None

    def text(self, name: str, default: str | None = None, *, remedy: str = "give a text") -> str:
        """Return a text; a field without a default has to be there."""
        value = self.members.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise missing_field(name, remedy)
        if not isinstance(value, str):
            raise bad_request(name, value, remedy)
        return value

    def switch(self, name: str, *, default: bool) -> bool:
        """Return true or false; ``"true"`` and ``"false"`` are taken too (RabbitMQ)."""
        value = self.members.get(name)
        if value is None:
            return default
        if isinstance(value, bool | str) and value in SWITCHES:
            return SWITCHES[value]
        raise bad_request(name, value, "give true or false")

    def integer(self, name: str, default: int | None, least: int, most: int = INTEGER_MAX) -> int:
        """Return an integer within the bounds; digits in a text are taken too (RabbitMQ)."""
        value = self.members.get(name)
        remedy = f"give an integer from {least} to {most}"
        if value is None and default is not None:
            return default
        if value is None:
            raise missing_field(name, remedy)
        if isinstance(value, str) and value.isascii() and value.lstrip("-").isdigit() and len(value) < 20:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise bad_request(name, value, remedy)
        return value

    def object(self, name: str) -> dict[str, Any]:
        """Return an object, empty when it is missing; an empty list counts as an empty object (RabbitMQ)."""
        value = self.members.get(name)
        if value is None or value == []:
            return {}
        if not isinstance(value, dict):
            raise bad_request(name, value, "give an object")
        return value

    def arguments(self, name: str = "arguments") -> Arguments:
        """Return an object as arguments of a declaration; ``null`` is no argument (400)."""
        return arguments_of("argument", self.object(name))


async def read_fields(
    call: Call, known: Iterable[str], *, ignored: Iterable[str] = ADDRESSING, bytes_max: int = MEMBERS_BYTES_MAX
) -> Fields:
    """Return the fields of the body, an object of at most ``bytes_max``; no body is an object without fields.

    Beside one long text all fields have to fit into 64 KiB. Unknown fields are refused (400) with the nearest name;
    ``ignored`` ones may be there.
    """
    members = await read_object(call.request, bytes_max)
    names = [*known]
    allowed = {*names, *ignored}
    for name, value in members.items():
        if name not in allowed:
            nearest = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known here: {', '.join(sorted(names)) or 'none'}"
            raise bad_request(name, value, f"unknown field; {hint}")
    return Fields(members)
