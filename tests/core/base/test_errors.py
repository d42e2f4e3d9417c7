"""Refusals: one kind per reply code, and a refused request changes nothing."""

from __future__ import annotations

import pytest

from annulet.core.base import errors
from annulet.core.host.virtual_host import VirtualHost
from tests.core.helpers import NOW, RecordingEffects


def test_an_invalid_argument_is_answered_as_a_failed_precondition():
    assert issubclass(errors.InvalidArgument, errors.PreconditionFailed)


def test_kinds_with_different_reply_codes_do_not_cover_each_other():
    kinds = [errors.NotFound, errors.PreconditionFailed, errors.AccessRefused, errors.ResourceLocked]
    for kind in kinds:
        assert issubclass(kind, errors.CoreError)
        assert [other for other in kinds if issubclass(other, kind)] == [kind]


REFUSALS = [
    (errors.InvalidArgument, "ring", lambda host, _: host.declare_queue("n", now=NOW, arguments={"x-ring-size": 0})),
    (errors.InvalidArgument, "no-type", lambda host, _: host.declare_exchange("e", "no-type")),
    (errors.InvalidArgument, "x-match", lambda host, queue: host.bind_queue(queue, "amq.match", "", {"x-match": 1})),
    (errors.PreconditionFailed, "durable", lambda host, _: host.declare_queue("q", now=NOW, durable=True)),
    (errors.AccessRefused, "amq.x", lambda host, _: host.declare_queue("amq.x", now=NOW)),
    (errors.ResourceLocked, "locked", lambda host, _: host.declare_queue("locked", now=NOW)),
    (errors.NotFound, "missing", lambda host, queue: host.bind_queue(queue, "missing", "k")),
]


@pytest.mark.parametrize(("kind", "words", "request_it"), REFUSALS)
def test_a_refused_request_names_its_object_and_changes_nothing(kind, words, request_it):
    host = VirtualHost("/", RecordingEffects())
    queue = host.declare_queue("q", now=NOW)
    host.declare_queue("locked", now=NOW, owner=object())
    before = (set(host.queues), set(host.exchanges), list(host.bindings()), host.generation)
    with pytest.raises(kind, match=words):
        request_it(host, queue)
    assert (set(host.queues), set(host.exchanges), list(host.bindings()), host.generation) == before
