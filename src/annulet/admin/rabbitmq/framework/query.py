"""Query parameters: the names RabbitMQ knows, their values, and the page that they ask for."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from annulet.admin.requests.parameters import PAGE_SIZE, PAGE_SIZE_MAX
from annulet.admin.requests.responses import bad_request

if TYPE_CHECKING:
    from starlette.requests import Request

PAGE_MAX: Final = 1_000_000_000

NAMES: Final = (
    "page",
    "page_size",
    "name",
    "use_regex",
    "pagination",
    "columns",
    "sort",
    "sort_reverse",
    "disable_stats",
    "enable_queue_totals",
    "vhost",
    "force",
    "if-unused",
    "if-empty",
    "lengths_age",
    "lengths_incr",
    "msg_rates_age",
    "msg_rates_incr",
    "data_rates_age",
    "data_rates_incr",
    "node_stats_age",
    "node_stats_incr",
)
"""Every parameter that some route or RabbitMQ's console knows."""

TRUE: Final = ("true", "1", "yes")
FALSE: Final = ("false", "0", "no", "")


class Query:
    """The query parameters of a request.

    RabbitMQ ignores unknown parameters, and its clients send such, so these are ignored here too. A name
    that is nearly a known one is a mistake and refused (400); so is a known one given twice.
    """

    def __init__(self, parameters: dict[str, str]) -> None:
        self._parameters = parameters

    @classmethod
    def of(cls, request: Request) -> Query:
        """Read the parameters of a request."""
        parameters: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in NAMES:
                nearest = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.8)
                if nearest:
                    raise bad_request(name, value, f"unknown query parameter; did you mean {nearest[0]!r}?")
                continue
            if name in parameters and parameters[name] != value:
                raise bad_request(name, value, f"given twice, before as {parameters[name]!r}; give it once")
            parameters[name] = value
        return cls(parameters)

    def text(self, name: str) -> str:
        """Return a parameter, empty when it is not given."""
        return self._parameters.get(name, "")

    def given(self, name: str) -> bool:
        """Return whether the request has the parameter."""
        return name in self._parameters

    def switch(self, name: str) -> bool:
        """Return a parameter that is true or false; false when it is not given."""
        value = self.text(name).lower()
        if value in TRUE:
            return True
        if value in FALSE:
            return False
        raise bad_request(name, self.text(name), "give true or false")

    def integer(self, name: str, default: int, least: int, most: int) -> int:
        """Return an integer parameter within the bounds; refuse anything else (400)."""
        text = self._parameters.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
            raise bad_request(name, text, f"give an integer from {least} to {most}")
        return int(text)

    @property
    def page(self) -> int:
        """The number of the wanted page, from 1; 0 when the whole list is wanted."""
        return self.integer("page", 1, 1, PAGE_MAX) if self.given("page") else 0

    @property
    def page_size(self) -> int:
        """Items of a page."""
        return self.integer("page_size", PAGE_SIZE, 1, PAGE_SIZE_MAX)
