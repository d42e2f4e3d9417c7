from __future__ import annotations

from annulet.admin.interface.schemas import COUNT, items_of, object_of, page_of


def test_an_object_may_have_more_than_its_schema_names() -> None:
    assert object_of(size=COUNT) == {"type": "object", "properties": {"size": COUNT}, "required": ["size"]}


def test_lists_have_items() -> None:
    assert "required" not in page_of(object_of(size=COUNT))["properties"]["items"]["items"]
    for schema in (items_of(COUNT), page_of(COUNT)):
        assert schema["properties"]["items"] == {"type": "array", "items": COUNT}
    assert "page_count" in page_of(COUNT)["required"]
