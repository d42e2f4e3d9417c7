"""A queue the broker feeds is declared again when somebody deleted it, and says what is lost where it cannot be."""

from __future__ import annotations

from collections import Counter

import pytest
from structlog.testing import capture_logs

from annulet.broker.durability.fed_queue import FedQueue
from annulet.core.base.errors import CoreError, PreconditionFailed
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.queue.queue import Queue
from annulet.store.files.errors import CatalogueError
from tests.core.helpers import NOW, RecordingEffects


class Declared:
    """A virtual host that may refuse."""

    def __init__(self) -> None:
        self.host = VirtualHost("/", RecordingEffects())
        self.refusal: Exception | None = None
        self.losses: Counter[str] = Counter()
        self.fed = FedQueue("fed", "/", "all is lost", self.declare, self.losses)

    def declare(self) -> Queue:
        if self.refusal is not None:
            raise self.refusal
        return self.host.declare_queue("fed", now=NOW)


@pytest.mark.parametrize("refusal", [PreconditionFailed("too many queues"), CatalogueError("disk full")])
def test_a_deleted_queue_comes_back_when_it_can_and_until_then_losses_are_told(
    refusal: CoreError | CatalogueError,
) -> None:
    declared = Declared()
    declared.fed.open()
    queue = declared.fed.queue_for(1)
    assert queue is declared.host.queues["fed"]
    declared.host.delete_queue(queue, NOW)
    declared.refusal = refusal
    with capture_logs() as logs:
        assert declared.fed.queue_for(3) is None
    assert logs == [{"event": "all is lost", "log_level": "warning", "vhost": "/", "count": 3, "error": str(refusal)}]
    assert declared.fed.queue_for(2) is None
    assert declared.losses == {"fed": 5}
    declared.refusal = None
    assert declared.fed.queue_for(1) is declared.host.queues["fed"]


def test_a_first_declaration_that_is_refused_is_the_callers() -> None:
    declared = Declared()
    declared.refusal = PreconditionFailed("too many queues")
    with pytest.raises(PreconditionFailed, match="too many"):
        declared.fed.open()
