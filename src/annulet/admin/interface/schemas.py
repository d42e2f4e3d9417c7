"""JSON schemas of answers."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

ANY_OBJECT: Final[Schema] = {"type": "object"}
TEXT_SCHEMA: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
SWITCH_SCHEMA: Final[Schema] = {"type": "boolean"}
PROBLEM_SCHEMA: Final = "#/components/schemas/Problem"


def object_of(**properties: Schema) -> Schema:
    """Return the schema of an object that has these members, and maybe others."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def items_of(item: Schema) -> Schema:
    """Return the schema of a list without pages."""
    return object_of(items={"type": "array", "items": item})


def page_of(item: Schema) -> Schema:
    """Return the schema of one page of a list, whose items have the wanted columns only."""
    columns = {name: value for name, value in item.items() if name != "required"}
    return object_of(
        items={"type": "array", "items": columns},
        item_count=COUNT,
        filtered_count=COUNT,
        total_count=COUNT,
        page=COUNT,
        page_size=COUNT,
        page_count=COUNT,
    )
