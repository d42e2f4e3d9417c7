from __future__ import annotations

import pytest

from annulet.admin.rabbitmq.framework.query import Query
from annulet.admin.requests.parameters import PAGE_SIZE_MAX
from annulet.admin.requests.responses import ResourceError


def test_a_page_is_asked_for_by_its_number() -> None:
    assert Query({}).page == 0
    assert Query({"page": "3"}).page == 3
    assert Query({"page": "3"}).page_size == 100
    assert Query({"page_size": str(PAGE_SIZE_MAX)}).page_size == PAGE_SIZE_MAX


@pytest.mark.parametrize(("name", "value"), [("page", "0"), ("page", "x"), ("page_size", "501"), ("page_size", "0")])
def test_a_wrong_page_is_refused(name: str, value: str) -> None:
    with pytest.raises(ResourceError, match=f"field '{name}': value '{value}'; give an integer from 1 to"):
        assert Query({"page": "1", name: value}).page_size * Query({"page": "1", name: value}).page


def test_switches() -> None:
    assert Query({"use_regex": "true"}).switch("use_regex")
    assert not Query({"use_regex": "false"}).switch("use_regex")
    assert not Query({}).switch("use_regex")
    with pytest.raises(ResourceError, match="give true or false"):
        Query({"use_regex": "maybe"}).switch("use_regex")
