from __future__ import annotations

import pytest

from annulet.spark import packages, register
from annulet.spark.session import local_session


def test_nothing_is_said_where_all_is_installed() -> None:
    packages.require_packages("this")


@pytest.mark.parametrize(
    ("there", "text"), [((), "pyspark and pyarrow"), (("pyspark",), "pyarrow"), (("pyarrow",), "pyspark")]
)
def test_missing_packages_are_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], text: str
) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: object() if name in there else None)
    for call, purpose in ((lambda: register(None), 'format("annulet")'), (local_session, "a Spark session")):
        with pytest.raises(ImportError) as caught:
            call()
        assert str(caught.value) == f"{purpose} needs {text}; pip install 'annulet[spark]'"
