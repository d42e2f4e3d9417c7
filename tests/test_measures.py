"""The measures of structure, each against small packages, and their bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import measures
from scripts.measures import MEASURES, Sources, complaints, largest_circle, read_bounds

ROOT = Path(__file__).resolve().parent.parent


def package(root: Path, modules: dict[str, str]) -> Sources:
    """Return a package of these modules: ``core.queue.queue`` is ``annulet/core/queue/queue.py``."""
    for name, text in modules.items():
        path = root.joinpath("src", "annulet", *name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Sources(root)


QUEUE = {
    "core.queue.entries": "class Entries:\n    def __init__(self):\n        self.order = 1\n",
    "core.queue.queue": (
        "from annulet.core.queue.entries import Entries\n"
        "class Queue(Entries):\n    def fill(self):\n        self.pending = 2\n"
    ),
}


def test_the_largest_folder_is_counted(tmp_path: Path) -> None:
    assert measures.folder_modules(package(tmp_path, {"a.b": "", "a.c": "", "d": ""})) == 2


@pytest.mark.parametrize(
    ("edges", "size"),
    [
        ({"a": {"b"}, "b": set()}, 0),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, 2),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e", "a"}, "e": {"d"}}, 3),
        ({"a": {"b", "d"}, "b": {"c"}, "c": {"b"}, "d": {"e"}, "e": {"f"}, "f": {"d", "a"}}, 4),
    ],
)
def test_circles_of_imports_are_found(edges: dict[str, set[str]], size: int) -> None:
    assert largest_circle(edges) == size


def test_a_long_circle_needs_no_deep_stack() -> None:
    count = 20_000
    assert largest_circle({str(n): {str((n + 1) % count)} for n in range(count)}) == count


BASE = "class Base:\n    pass\n"
CUT = "from annulet.a.base import Base\nclass Whole(Base):\n    pass\n"


@pytest.mark.parametrize(
    ("modules", "count"),
    [
        ({"a.base": BASE, "a.whole": CUT}, 1),
        ({"a.base": BASE, "a.whole": CUT, "a.other": CUT}, 0),  # an interface of two
        ({"a.base": BASE, "b.whole": CUT}, 0),  # a room implements the interface of another one
        ({"a.base": BASE + "class Whole(Base):\n    pass\n"}, 0),
        ({"a.base": BASE, "a.whole": CUT + "plain = Base()\n"}, 0),
        ({"a.base": BASE, "a.whole": CUT.replace("(Base)", "(Base[int])")}, 1),
        ({"a.base": BASE, "a.whole": CUT, "b.base": BASE, "b.whole": CUT.replace("a.base", "b.base")}, 2),
        ({"a.__init__": "from annulet.a.base import Base", "a.base": BASE, "a.whole": CUT.replace(".base", "")}, 1),
    ],
)
def test_classes_cut_in_slices_are_counted(tmp_path: Path, modules: dict[str, str], count: int) -> None:
    assert measures.single_subclass_bases(package(tmp_path, modules)) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(other):\n    return other._hidden\n", 1),
        ("def f(other):\n    other.a._hidden = 1\n", 1),
        (
            "class A:\n    def f(self): return self._own\n    def g(self, other): return other._own\n",
            0,
        ),
        ("class A:\n    def _own(self): ...\ndef f(a):\n    a._own()\n", 0),
        ("class A(B):\n    def f(self):\n        return super()._of_the_base()\n", 0),
        ("Row._fields\nos._exit(1)\nx.__dict__\n", 0),
    ],
)
def test_private_members_of_other_objects_are_counted(tmp_path: Path, text: str, count: int) -> None:
    assert measures.private_reach(package(tmp_path, {"a": text})) == count


def test_those_that_tests_reach_are_counted_apart(tmp_path: Path) -> None:
    (tmp_path / "tests" / "a").mkdir(parents=True)
    (tmp_path / "tests" / "a" / "test_b.py").write_text("b._hidden()\nassert b._x == 1\n")
    sources = package(tmp_path, {"a": "x = 1\n"})
    assert (measures.private_reach(sources), measures.tests_private_reach(sources)) == (0, 2)


@pytest.mark.parametrize(
    ("kinds", "count"), [("Order", 0), ("Fifo", 1), ("Fifo | Sorted", 1), ("(int, Sorted)", 1), ("int", 0)]
)
def test_tests_of_concrete_orders_are_counted(tmp_path: Path, kinds: str, count: int) -> None:
    orders = "class Order: ...\nclass Fifo(Order): ...\nclass Paged(Fifo): ...\nclass Sorted(Paged): ...\n"
    user = f"from annulet.core.model.order import Fifo, Order, Sorted\nx = isinstance(y, {kinds})\n"
    assert measures.order_ladders(package(tmp_path, {"core.model.order": orders, "a": user})) == count


@pytest.mark.parametrize("measure", [measures.order_ladders, measures.queue_functions, measures.queue_writers])
def test_a_class_that_has_moved_is_an_error_and_not_0(tmp_path: Path, measure: Callable[[Sources], int]) -> None:
    with pytest.raises(LookupError, match="name its present place"):
        measure(package(tmp_path, {"a": "x = isinstance(y, Order)\n"}))


FUNCTIONS = (
    "from annulet.core.queue.queue import Queue\nfrom annulet.core.queue.entries import Entries\n"
    "def f(queue: Queue): ...\ndef g(entries: Entries): ...\ndef h(other: int, *, queue: Queue): ...\n"
    "def k(order: Order): ...\nclass A:\n    def m(self, queue: Queue): ...\n"
)


def test_functions_with_a_whole_queue_are_counted_in_the_core(tmp_path: Path) -> None:
    sources = package(tmp_path, {**QUEUE, "core.a": FUNCTIONS, "broker.b": FUNCTIONS})
    assert measures.queue_functions(sources) == 3


def test_modules_with_fields_of_a_queue_are_counted(tmp_path: Path) -> None:
    sources = package(
        tmp_path,
        {
            **QUEUE,
            "a": "x = queue.order\nqueue.order = 2\n",
            "b": "class B:\n    def f(self):\n        return self._queue.pending\n",
            "c": "entry.queue.pending += 1\n",
            "d": "x = other.order\nx = queue.fill\n",
        },
    )
    assert measures.queue_fields(sources) == {"order", "pending"}
    assert (measures.queue_readers(sources), measures.queue_writers(sources)) == (3, 2)


def test_sentences_are_counted_by_the_thousand(tmp_path: Path) -> None:
    page = "A queue keeps its messages. " * 9
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(page)
    sources = package(tmp_path, {"a": '"""Nobody reads it at all."""\n'})
    assert measures.indirect_sentences(sources) == 100


def test_the_architecture_is_measured(tmp_path: Path) -> None:
    (tmp_path / "ARCHITECTURE.md").write_text("# Ä\n\nlong line\n")
    sources = package(tmp_path, {"a": ""})
    assert (measures.architecture_bytes(sources), measures.architecture_line(sources)) == (16, 9)


@pytest.mark.parametrize(
    ("value", "limit", "ratchet", "words"),
    [
        (5, 5, None, None),
        (1, 5, None, None),
        (6, 5, None, "at most 5"),
        (5, None, 5, None),
        (6, None, 5, "at most 5"),
        (4, None, 5, "lower the bound"),  # a small ratchet is exact
        (95, None, 100, None),
        (94, None, 100, "lower the bound"),
    ],
)
def test_a_ratchet_only_shrinks_and_a_limit_stays(
    value: int, limit: int | None, ratchet: int | None, words: str | None
) -> None:
    name = "queue_functions"
    limits = {} if limit is None else {name: limit}
    ratchets = {} if ratchet is None else {name: ratchet}
    found = list(complaints({name: value}, limits, ratchets))
    assert len(found) == (words is not None)
    if words is not None:
        assert words in found[0]
        assert name in found[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("private_reach = 0\n", "", "private_reach has 0 bounds"),
        ("order_ladders = ", "private_reach = 1\norder_ladders = ", "private_reach has 2 bounds"),
        ("private_reach = 0\n", "private_reach = 0\nmodules = 1\n", "modules is no measure"),
    ],
)
def test_each_measure_has_one_bound(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert old in text
    (tmp_path / "pyproject.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=words):
        read_bounds(tmp_path)


def test_the_repository_has_a_bound_for_each_measure() -> None:
    limits, ratchets = read_bounds(ROOT)
    assert sorted([*limits, *ratchets]) == sorted(MEASURES)


def test_values_are_one_line_and_an_exceeded_bound_is_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measures, "MEASURES", {"private_reach": measures.private_reach})
    monkeypatch.setattr(measures, "read_bounds", lambda _: ({"private_reach": 0}, {}))
    package(tmp_path, {"a": "x = 1\n"})
    assert measures.main(tmp_path) == 0
    assert capsys.readouterr().out == "private_reach 0 (0)\n"
    package(tmp_path, {"a": "x = other._hidden\n"})
    assert measures.main(tmp_path) == 1
    written = capsys.readouterr()
    assert written.out == "private_reach 1 (0)\n"
    assert "private_reach is 1, at most 0 is allowed. Count reads" in written.err


def test_the_check_takes_the_measures() -> None:
    assert "-m scripts.measures" in (ROOT / "scripts" / "check").read_text()
