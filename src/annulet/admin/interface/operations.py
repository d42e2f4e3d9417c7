"""Resources of the API with their operations: permissions, parameters, body and answers of each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from annulet.admin.requests.access import API_TAGS, WRITE_TAGS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.admin.interface.values import Value
    from annulet.broker.security.authentication import PermissionKind, User

Handler: TypeAlias = "Callable[[Call], Awaitable[Response]]"
Login: TypeAlias = "Callable[[Request], Awaitable[User]]"

READING: Final = frozenset({"GET", "HEAD"})

VHOST_NAME: Final = "vhost"
"""The name of a path that names a virtual host, which the user has to see."""


@dataclass(frozen=True, slots=True)
class Need:
    """A permission that an operation takes on a name of its path."""

    permission: PermissionKind
    name: str


@dataclass(frozen=True, slots=True)
class Fields:
    """A body: an object with these fields, and no others."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Members:
    """A body: an object whose members the operation knows itself, such as settings."""

    text: str
    example: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Document:
    """A body that the operation reads in portions, because it may be long."""

    text: str
    required: bool = True


Body: TypeAlias = Fields | Members | Document


@dataclass(frozen=True, slots=True)
class Answer:
    """The meaning of an answer, and the JSON schema of its content; ``None``: it has no content."""

    text: str
    schema: Mapping[str, Any] | None = field(default_factory=lambda: {"type": "object"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of a resource.

    ``tags``: the user needs one of them; by default the tags of the API, and for changes those that may write.
    ``needs``: permissions on names of the path, which are asked for before anything is looked up. ``further``: the
    permissions that depend on the body, in words; the operation asks for them. ``local``: only from this machine.
    ``login``: takes the place of the usual check of credentials, and reads the body, if there is one.
    """

    method: str
    name: str
    text: str
    handler: Handler
    tags: frozenset[str] = frozenset()
    needs: tuple[Need, ...] = ()
    parameters: tuple[Value, ...] = ()
    body: Body | None = None
    answers: Mapping[int, Answer] = field(default_factory=lambda: {200: Answer("Done.")})
    further: str = ""
    local: bool = False
    login: Login | None = None

    @property
    def changes(self) -> bool:
        """Whether the operation may change something."""
        return self.method not in READING

    @property
    def allowed_tags(self) -> frozenset[str]:
        """The tags of which the user needs one."""
        return self.tags or (WRITE_TAGS if self.changes else API_TAGS)


Revision: TypeAlias = "Callable[[Call], Any]"


@dataclass(frozen=True, slots=True)
class Resource:
    """A path below ``/api/v1/`` with its operations; ``{name}`` stands for one segment.

    ``group`` orders the description. ``revision`` returns the definition of the resource, as JSON, and ``None`` for
    a missing one: with it the resource has entity tags, and changes take ``If-Match``.
    """

    path: str
    group: str
    operations: tuple[Operation, ...]
    revision: Revision | None = None

    def operation(self, method: str) -> Operation | None:
        """Return the operation of a method; HEAD is answered as GET."""
        wanted = "GET" if method == "HEAD" else method
        return next((operation for operation in self.operations if operation.method == wanted), None)

    @property
    def methods(self) -> str:
        """The methods, for a text or header."""
        return ", ".join(operation.method for operation in self.operations)
