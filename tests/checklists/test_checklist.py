"""Reading of checklists: what is always changed, sometimes, in part, or only named."""

from __future__ import annotations

from tests.checklists.checklist import checklists, is_named

TEXT = """
## Checklists

### A new thing

Text before the items.

- [ ] `core/queue/arrival.py`: as `core/queue/delivery.py`, through
      `broker/connections/access.py`
- [ ] One of `admin/resources/metrics.py` and `admin/figures/bounds.py`: a name
- [ ] If it is seen: `docs/metrics.md`; run `python -m tests.core.page`
- [ ] `wire/NAME/`: a package; `pyproject.toml`

### An other thing

- [ ] `core/queue/queue.py`
"""


def test_items_are_read_by_their_beginnings() -> None:
    first, second = checklists(TEXT)
    assert (first.name, second.name) == ("new_thing", "other_thing")
    assert first.always == {"src/annulet/core/queue/arrival.py", "src/annulet/wire/NAME/", "pyproject.toml"}
    assert first.sometimes == {"docs/metrics.md"}
    assert first.choices == [{"src/annulet/admin/resources/metrics.py", "src/annulet/admin/figures/bounds.py"}]
    assert first.models == {"src/annulet/core/queue/delivery.py", "src/annulet/broker/connections/access.py"}
    assert second.named == {"src/annulet/core/queue/queue.py"}


def test_a_folder_stands_for_the_files_below_it_and_for_no_other() -> None:
    named = {"src/annulet/wire/NAME/", "src/annulet/core/queue/queue.py"}
    assert is_named("src/annulet/wire/line/engine.py", named)
    assert is_named("src/annulet/core/queue/queue.py", named)
    assert not is_named("src/annulet/wire/line", named)
    assert not is_named("src/annulet/core/queue/queue_py", named)
    assert not is_named("src/annulet/core/queue/arrival.py", named)
