from __future__ import annotations

from annulet.admin.requests.access import API_TAGS, WRITE_TAGS
from annulet.admin.resources.routes import TABLE

OPERATIONS = [operation for resource in TABLE.resources for operation in resource.operations]


def test_names_are_unique_and_said_in_words() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert len(names) == len(set(names))
    for operation in OPERATIONS:
        assert operation.text.endswith("."), operation.name
        assert operation.answers, operation.name


def test_needs_name_a_part_of_the_path() -> None:
    for resource in TABLE.resources:
        for operation in resource.operations:
            for need in operation.needs:
                assert f"{{{need.name}}}" in resource.path, operation.name


def test_changes_take_tags_that_may_write_unless_they_say_other_ones() -> None:
    by_name = {operation.name: operation for operation in OPERATIONS}
    assert by_name["list_queues"].allowed_tags == API_TAGS
    assert by_name["change_queue"].allowed_tags == WRITE_TAGS
    assert by_name["put_user"].allowed_tags == {"administrator"}


def test_head_is_get() -> None:
    resource = next(resource for resource in TABLE.resources if resource.path == "queues/{vhost}/{queue}")
    assert resource.operation("HEAD") is resource.operation("GET")
    assert resource.operation("TRACE") is None
    assert resource.methods == "GET, PUT, DELETE, PATCH"
