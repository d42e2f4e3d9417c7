from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker.operation import global_parameters as module
from annulet.broker.operation.global_parameters import CLUSTER_NAME, GlobalParameters
from annulet.core.base.errors import InvalidArgument
from annulet.store.database.catalogue import Catalogue
from tests.databases import memory_catalogue


def test_values_outlive_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "catalogue"
    catalogue = Catalogue(path)
    parameters = GlobalParameters(catalogue)
    assert parameters.cluster_name == "annulet"
    parameters.set("b", {"x": [1, None, 2.5]})
    parameters.set("a", None)
    parameters.set(CLUSTER_NAME, "shop")
    catalogue.close()
    catalogue = Catalogue(path)
    parameters = GlobalParameters(catalogue)
    assert parameters.all() == {"a": None, "b": {"x": [1, None, 2.5]}, CLUSTER_NAME: "shop"}
    assert parameters.cluster_name == "shop"
    assert parameters.remove("a")
    assert not parameters.remove("a")
    assert list(GlobalParameters(catalogue).all()) == ["b", CLUSTER_NAME]
    catalogue.close()


@pytest.mark.parametrize(
    ("name", "value"), [("", 1), ("x" * 256, 1), ("a\nb", 1), (CLUSTER_NAME, 5), (CLUSTER_NAME, "")]
)
def test_wrong_names_and_values_are_refused(name: str, value: object) -> None:
    parameters = GlobalParameters(memory_catalogue())
    with pytest.raises(InvalidArgument):
        parameters.set(name, value)
    assert parameters.all() == {}


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GLOBAL_PARAMETERS_MAX", 2)
    parameters = GlobalParameters(memory_catalogue())
    parameters.set("a", 1)
    parameters.set("b", 1)
    with pytest.raises(InvalidArgument, match="delete one first"):
        parameters.set("c", 1)
    parameters.set("a", 2)
    assert parameters.all() == {"a": 2, "b": 1}
