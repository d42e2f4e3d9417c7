"""Every composition goes on from its image: after each command the model's queue is replaced by one made from it."""

from __future__ import annotations

import sys
from collections import deque
from functools import partial
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.commit_plan import Operations, Return, Send
from annulet.core.host.transaction import Transaction
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.routing.node_effects import NodeEffects
from annulet.core.routing.routes import Route
from annulet.core.sessions.session import Session
from annulet.spark.engine.blanks import BLANKS
from annulet.spark.engine.image import Image, ImageError, pack_rows, read_image, unpack_rows, write_image
from tests.core.helpers import make_message, pending, queue_of
from tests.core.model_suite.compositions import Composition, compositions
from tests.core.model_suite.programs import LONGEST, SHORTEST, Interpreter
from tests.core.model_suite.runner import CONNECTIONS, Runner

PROGRAMS, EVERY = 2, 6
"""Programs of one composition in so many, some seconds each; the others have their turn in test_replica's soak."""

PACKAGES = ("annulet.core.", "tests.core.")


class ImagedRunner(Runner):
    """All that the core's side consists of is made anew after each command."""

    def compare(self) -> None:
        super().compare()
        pairs = self.sessions
        sends = [send for pair in pairs for send in pair.transaction.sends]
        for send in sends:  # a route is the virtual host's, which stays
            send.route = Route("", "", [], 0)
        root = [self.queue, self.effects, self.forwarder, self.view]
        root += [(pair.real, pair.transaction) for pair in pairs]
        packed = list(pack_rows(write_image(root, PACKAGES)))
        self.queue, self.effects, self.forwarder, self.view, *made = read_image(unpack_rows(packed), PACKAGES)
        self.host.queues["q"] = self.queue
        self.host.graph_changed()
        for pair, (session, transaction) in zip(pairs, made, strict=True):
            pair.real, pair.transaction = session, transaction
            for send in transaction.sends:
                send.route = self.host.route("", "q")
        super().compare()


@pytest.mark.soak  # histories do the same in test_replica, now and then
@pytest.mark.hypothesis
@pytest.mark.parametrize("composition", compositions()[::EVERY], ids=lambda one: one.identifier)
def test_core_agrees_with_the_oracle_when_it_is_made_from_its_image_after_each_command(
    composition: Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, session = make_message(), Session("")
    route = VirtualHost("/", NodeEffects()).route("", "")
    for maker in (  # what the engine's queues do not have, and the model's do
        partial(Transaction, session),
        Operations,
        partial(Send, message, route, "", ()),
        partial(Return, False, None),
        partial(Route, "", "", [], 0),
    ):
        kind = type(maker())
        monkeypatch.setitem(BLANKS, f"{kind.__module__}:{kind.__qualname__}", maker)
    for connection in CONNECTIONS:
        sys.intern(connection)  # identities of connections are compared by ``is``

    def run(program: bytes) -> None:
        interpreter = Interpreter(composition, program)
        interpreter.runner = ImagedRunner(composition.settings, copies=interpreter.runner.copies)
        interpreter.run()

    test = given(st.binary(min_size=SHORTEST, max_size=LONGEST))(run)
    test = settings(max_examples=PROGRAMS)(test)
    seed(crc32(composition.identifier.encode()))(test)()


def test_a_queue_is_made_again_with_its_messages() -> None:
    queue = queue_of(ring_size=2)
    for number in range(3):
        queue.enqueue(make_message(f"m{number}"), 0)
    made = read_image(unpack_rows(list(pack_rows(write_image(queue, PACKAGES)))), PACKAGES)
    assert pending(made) == ["m1", "m2"]
    assert made.order is not queue.order
    assert made.counters.removed[RemovalReason.REPLACED_RING] == 1


def test_what_is_of_another_package_is_in_no_image() -> None:
    with pytest.raises(ImageError, match=r"a tests\.core\.helpers:RecordingEffects cannot be in an image"):
        write_image(queue_of())
    with pytest.raises(ImageError, match=r"names os:_Environ, which is not of annulet\.core\."):
        read_image(Image([["os:_Environ"]], [(0, [])]))


def test_an_image_of_another_version_is_refused() -> None:
    with pytest.raises(ImageError, match=r"names annulet\.core\.queue\.queue:Former, which this version does not have"):
        read_image(Image([["annulet.core.queue.queue:Former"]], [(0, [])]))
    with pytest.raises(ImageError, match=r"CreditWindow has no field 'former' for 1 in this version"):
        read_image(Image([["annulet.core.model.consumer:CreditWindow", "former"]], [(0, [1])]))
    with pytest.raises(ImageError, match="a part of it is missing"):
        read_image(Image([], []))


@pytest.mark.parametrize(
    "value", [1 << 200, -(1 << 64), (1, (2.5, None)), frozenset({"a"}), b"x", "", RemovalReason.MOVED]
)
def test_values_are_as_they_were(value: Any) -> None:
    image = unpack_rows(list(pack_rows(write_image([value, deque([value], 3), deque([value]), {value: {1}}]))))
    same, bounded, unbounded, mapping = read_image(image)
    assert (same, list(bounded), bounded.maxlen, mapping) == (value, [value], 3, {value: {1}})
    assert (list(unbounded), unbounded.maxlen) == ([value], None)
