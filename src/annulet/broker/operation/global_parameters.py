"""Global parameters: named JSON values that operators and their tools keep with the broker; the cluster's name is one.

The broker itself reads no other. They are durable, and in memory for answers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments.values import NAME_BYTES_MAX, refuse_line_breaks, shown

if TYPE_CHECKING:
    from annulet.store.database.catalogue import Catalogue

GLOBAL_PARAMETER: Final = "global-parameter"
"""Their kind in the catalogue."""

NO_HOST: Final = ""
JSON_TEXT: Final = "json"

GLOBAL_PARAMETERS_MAX: Final = 1000
"""Parameters that may be kept, each at most as large as a request's body: tools keep a handful."""

CLUSTER_NAME: Final = "cluster_name"
DEFAULT_CLUSTER_NAME: Final = "annulet"


class GlobalParameters:
    """The global parameters of one broker."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._values: dict[str, Any] = {
            name: json.loads(str(value[JSON_TEXT]))
            for name, value in catalogue.operator_settings(GLOBAL_PARAMETER, NO_HOST).items()
        }

    def all(self) -> dict[str, Any]:
        """Return the values by name, sorted."""
        return dict(sorted(self._values.items()))

    def set(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name, in place of the one of this name.

        Raises :class:`InvalidArgument` for a wrong name and too many, ``CatalogueError`` when the disk refuses; nothing
        has changed then.
        """
        refuse_line_breaks("global parameter", name)
        if not name or len(name.encode(errors="surrogatepass")) > NAME_BYTES_MAX:
            raise InvalidArgument(f"global parameter name {shown(name)} must have 1 to {NAME_BYTES_MAX} bytes")
        if name not in self._values and len(self._values) >= GLOBAL_PARAMETERS_MAX:
            raise InvalidArgument(f"there are {GLOBAL_PARAMETERS_MAX} global parameters; delete one first")
        if name == CLUSTER_NAME and (not isinstance(value, str) or not value):
            raise InvalidArgument(f"cluster name {shown(value)} must be a text that is not empty")
        if name == CLUSTER_NAME:
            refuse_line_breaks("cluster", value)
        self._catalogue.set_operator_setting(GLOBAL_PARAMETER, NO_HOST, name, {JSON_TEXT: json.dumps(value)})
        self._values[name] = value

    def remove(self, name: str) -> bool:
        """Forget a parameter. Returns whether there was one."""
        if name not in self._values:
            return False
        self._catalogue.delete_operator_setting(GLOBAL_PARAMETER, NO_HOST, name)
        del self._values[name]
        return True

    @property
    def cluster_name(self) -> str:
        """The name that an operator gave, ``annulet`` without one."""
        return str(self._values.get(CLUSTER_NAME, DEFAULT_CLUSTER_NAME))
