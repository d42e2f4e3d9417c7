"""The reference part of docs/http-api.md, from the route table. ``python -m tests.docs.http_api`` writes it again."""

from __future__ import annotations

from pathlib import Path

from annulet.admin.interface.openapi import GROUPS
from annulet.admin.interface.operations import Fields, Operation, Resource
from annulet.admin.resources.routes import TABLE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "http-api.md"
BEGIN, END = "<!-- operations -->", "<!-- end of operations -->"
LISTED = {"page", "page_size", "cursor", "columns", "sort", "sort_reverse", "name"}


def permission(operation: Operation) -> str:
    """Return the tags unless they are the usual ones, and the permissions."""
    words = [f"`{need.permission}` on {need.name}" for need in operation.needs]
    if operation.tags:
        words.insert(0, " or ".join(f"`{tag}`" for tag in sorted(operation.tags)))
    if operation.local:
        words.append("from this machine")
    text = ", ".join(words) or ("may write" if operation.changes else "any")
    return f"{text}; {operation.further}" if operation.further else text


def parameters(operation: Operation) -> str:
    """Return the names of parameters, those of every list together, and of fields."""
    names = [value.name for value in operation.parameters]
    own = [f"`{name}`" for name in names if name not in LISTED or ("sort" not in names and name == "name")]
    if "page" in names:
        own.insert(0, "list" if "cursor" in names else "`page`, `page_size`")
    if isinstance(operation.body, Fields):
        own += [f"**{value.name}**" if value.required else f"*{value.name}*" for value in operation.body.values]
    elif operation.body is not None:
        own.append("a document")
    return ", ".join(own) or "–"


def rows(resource: Resource) -> list[str]:
    """Return the rows of a resource."""
    path = resource.path.replace("{", "").replace("}", "")
    shown = "/".join(
        part.upper() if original.startswith("{") else part
        for part, original in zip(path.split("/"), resource.path.split("/"), strict=True)
    )
    return [
        f"| `{operation.method} {shown}` | {operation.text} | {permission(operation)} | {parameters(operation)} |"
        for operation in resource.operations
    ]


def reference() -> str:
    """Return the reference part of the page."""
    lines = [
        "Paths are below `/api/v1/`. *any*: one of the tags `administrator`, `monitoring`, `management`; *may write*:",
        "`administrator` or `management`. *list*: the parameters of [lists](#lists). Fields of a body are in italics,",
        "required ones in bold.",
    ]
    for group, text in GROUPS.items():
        found = [row for resource in TABLE.resources if resource.group == group for row in rows(resource)]
        lines += ["", f"### {group.capitalize()}", "", text, ""]
        lines += ["| request | does | permission | parameters |", "| --- | --- | --- | --- |", *found]
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with the reference of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
