"""The Celery application of ``test_celery_delayed``: quorum queues, and countdowns that the broker keeps."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, Task
from kombu import Queue

application = Celery("annulet_delayed", broker=os.environ.get("CELERY_BROKER", ""), backend="rpc://")
application.conf.update(
    task_default_queue_type="quorum",
    task_default_exchange_type="topic",
    task_acks_late=True,
    worker_detect_quorum_queues=True,
    broker_native_delayed_delivery_queue_type="quorum",
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
)


def use_queue(name: str) -> None:
    """Let the application send to a quorum queue, and its workers consume from it."""
    application.conf.update(
        task_default_queue=name, task_queues=[Queue(name, queue_arguments={"x-queue-type": "quorum"})]
    )


use_queue(os.environ.get("CELERY_QUEUE", "delayed"))


@application.task
def add(x: int, y: int) -> int:
    return x + y


@application.task(bind=True, max_retries=5)
def flaky(self: Task[Any, Any], fail_times: int) -> int:
    """Fail as often as asked, each time for a second, then return the attempt that worked."""
    attempt = self.request.retries
    if attempt < fail_times:
        raise self.retry(countdown=1)
    return attempt
