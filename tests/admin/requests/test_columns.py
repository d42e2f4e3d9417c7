from __future__ import annotations

from annulet.admin.requests.columns import Columns, sort_key


def test_parts_of_objects_and_of_the_objects_of_a_list_are_chosen() -> None:
    item = {"name": "q", "stats": {"a": {"rate": 1, "x": 2}, "b": 3}, "list": [{"k": 1, "l": 2}, 5]}
    assert Columns.of("stats.a.rate,list.k,missing").of_item(item) == {
        "stats": {"a": {"rate": 1}},
        "list": [{"k": 1}, 5],
    }
    assert Columns.of("").of_item(item) is item
    assert Columns.of("name,stats.a").roots == {"name", "stats"}
    assert Columns.of("").roots is None
    assert Columns.of("stats.a,stats").of_item(item) == {"stats": item["stats"]}


def test_values_of_different_kinds_have_rabbitmqs_order() -> None:
    values = ["text", [1], {"a": 1}, True, None, 5, 2.5]
    ordered = sorted(values, key=lambda value: sort_key({"v": value}, ["v"]))
    assert ordered == [2.5, 5, None, True, {"a": 1}, [1], "text"]
    assert sort_key({}, ["v", "w"]) == (0, 0)
