"""The Celery application of ``test_celery``: imported by the worker process and by the test."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

from celery import Celery, Task

application = Celery("annulet_tests", broker=os.environ.get("CELERY_BROKER", ""), backend="rpc://")
application.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    result_expires=600,
    task_default_queue=os.environ.get("CELERY_QUEUE", "celery"),
    broker_heartbeat=int(os.environ.get("CELERY_HEARTBEAT", "120")),
)


def trust(application: Celery, authority: str) -> None:
    """Let an application use TLS, with brokers whose certificate is of that authority, a file."""
    application.conf.broker_use_ssl = {
        "ca_certs": authority, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "localhost",
    }  # fmt: skip


if authority := os.environ.get("CELERY_AUTHORITY"):
    trust(application, authority)


@application.task
def add(x: int, y: int) -> int:
    return x + y


@application.task(bind=True, max_retries=5)
def flaky(self: Task[Any, Any], fail_times: int) -> int:
    """Fail as often as asked, then return the attempt that worked."""
    attempt = self.request.retries
    if attempt < fail_times:
        raise self.retry(countdown=0.05)
    return attempt


@application.task
def broken() -> None:
    raise ValueError("no use trying again")


@application.task
def tail(numbers: list[int]) -> int:
    return sum(numbers)


@application.task
def once_then_die(marker: str) -> str:
    """Take the worker's child process down at the first attempt; the second one finds the marker."""
    path = Path(marker)
    if not path.exists():
        path.write_text("was here")
        os._exit(1)
    return "survived"
