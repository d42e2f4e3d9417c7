"""Blanks: every compiled class that images name has one."""

from __future__ import annotations

import tomllib
from pathlib import Path

from annulet.spark.engine.blanks import BLANKS, blank_of
from annulet.spark.engine.commands import parse_command
from annulet.spark.engine.image import write_image
from annulet.spark.engine.replica import Replica
from tests.core.model_suite.compositions import compositions
from tests.core.model_suite.policies import LOCAL, SELECTORS
from tests.spark.engine.histories import history

PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"
OPEN = {
    "annulet.core.model.forwarder:Forwarder",
    "annulet.core.model.effects:Effects",
    "annulet.core.model.loss_ledger:LossListener",
}
"""Compiled classes that interpreted ones may extend: objects of these are made without ``__init__``."""


def test_every_compiled_class_that_images_name_has_a_blank() -> None:
    named = set()
    chosen = compositions()
    selecting = [one for one in chosen if {SELECTORS, LOCAL} & one.traits]  # their lanes are of another kind
    levels = [one for one in selecting if one.settings.priorities > 0 or one.settings.max_priority >= 0]
    plain = [one for one in selecting if one not in levels]
    for place, composition in enumerate((*chosen[::12], *plain[:8], *levels[:8])):
        replica = Replica("q")
        for one in history(place, {"q": composition}, 60):
            replica.apply(parse_command(one[2]), one[3])
            replica.existing().matchers.lanes_max = 2  # so that some wait behind lanes, as of very many do
            if one[1] % 20 == 0:
                named |= {name for name, *_ in write_image(replica).classes}
    assert {"annulet.core.searching.deep_lanes:DeepLanes", "annulet.core.paging.paged_priorities:PagedLevels"} <= named
    compiled = set(tomllib.loads(PROJECT.read_text())["tool"]["annulet"]["compiled"])
    assert {name for name in named if name.partition(":")[0] in compiled} - OPEN <= set(BLANKS)
    assert len(named & set(BLANKS)) > 25


def test_blanks_are_made_anew_each_time() -> None:
    for place, maker in BLANKS.items():
        one, other = maker(), maker()
        assert one is not other
        assert f"{type(one).__module__}:{type(one).__qualname__}" == place


def test_an_interpreted_class_needs_no_maker() -> None:
    made = blank_of("annulet.spark.engine.replica:Replica", Replica)()
    assert isinstance(made, Replica)
    assert not hasattr(made, "queue")
