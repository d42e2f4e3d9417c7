"""Errors of Spark in one line."""

from __future__ import annotations

from annulet.spark.pipeline.errors import TEXT_MAX, explain

TRACEBACK = """[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
annulet.bulk.protocol.errors.LeaseGoneError: lease range gone: 'x'; use a new checkpoint
 SQLSTATE: XXKST
"""


def test_our_own_text_is_found_in_a_traceback() -> None:
    assert explain(RuntimeError(TRACEBACK)) == "lease range gone: 'x'; use a new checkpoint"


def test_the_last_error_of_python_is_the_cause() -> None:
    text = "Traceback\nValueError: first\nduring it\nKeyError: 'second'\n"
    assert explain(RuntimeError(text)) == "'second'"


def test_an_error_class_of_spark_is_left_out() -> None:
    assert explain(RuntimeError("[TABLE_OR_VIEW_NOT_FOUND] no view x\nmore\nlines")) == "no view x"


def test_an_error_without_text_says_its_kind() -> None:
    assert explain(KeyError()) == "KeyError"


def test_a_line_is_cut_behind_its_limit_only() -> None:
    assert explain(RuntimeError("x" * TEXT_MAX)) == "x" * TEXT_MAX
    assert explain(RuntimeError("x" * (TEXT_MAX + 1))) == "x" * TEXT_MAX + " ..."
