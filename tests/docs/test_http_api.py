from __future__ import annotations

from tests.docs.http_api import PAGE, page


def test_the_reference_is_of_the_route_table() -> None:
    text = PAGE.read_text()
    assert text == page(text), "run python -m tests.docs.http_api"
