"""Selectors as conditions of bindings, queues and diverts."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.message.filters import Verdicts, compile_filter
from tests.core.helpers import TableView, make_message


class CountingView(TableView):
    """Counts what is asked."""

    asked = 0

    def application_property(self, message, name):
        self.asked += 1
        return super().application_property(message, name)


def test_no_text_is_no_filter():
    assert compile_filter("", "x") is compile_filter("  ", "x") is None
    assert Verdicts(make_message()).admits(None)


def test_equal_filters_are_one_and_each_is_asked_once():
    message = make_message()
    message.origin.view = view = CountingView({"colour": "red"})
    verdicts = Verdicts(message)
    first, second = compile_filter("colour = 'red'", "x"), compile_filter("colour  =  'red'", "x")
    assert verdicts.admits(first)
    assert verdicts.admits(second)
    assert view.asked == 1
    assert not verdicts.admits(compile_filter("colour = 'blue'", "x"))
    assert view.asked == 2


def test_unknown_is_no():
    assert not Verdicts(make_message()).admits(compile_filter("colour = 'red'", "x"))
    assert not Verdicts(make_message()).admits(compile_filter("colour <> 'red'", "x"))


@pytest.mark.parametrize("text", ["colour =", "JMSRedelivered = TRUE"])
def test_a_bad_filter_is_refused_by_place(text):
    with pytest.raises(InvalidArgument, match="filter of divert 'd'"):
        compile_filter(text, "filter of divert 'd'")
