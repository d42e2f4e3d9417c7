"""A batch knows its query by the id that Spark gives the thread."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from annulet.spark.query_ids import QUERY_PROPERTY, query_id


def test_the_id_is_a_local_property_of_the_thread():
    context = SimpleNamespace(getLocalProperty={QUERY_PROPERTY: "a1b2"}.get)
    assert query_id(SimpleNamespace(sparkContext=context)) == "a1b2"


def test_a_spark_that_does_not_tell_it_is_refused():
    context = SimpleNamespace(getLocalProperty={}.get)
    with pytest.raises(RuntimeError, match=r"does not tell sql\.streaming\.queryId; annulet needs Spark 4\.3"):
        query_id(SimpleNamespace(sparkContext=context))
