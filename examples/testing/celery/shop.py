"""A shop whose orders are tasks of Celery."""

import celery

application = celery.Celery("shop")
application.conf.update(
    task_acks_late=True, broker_connection_retry_on_startup=True, worker_enable_remote_control=False,
    result_backend="cache+memory://",
)  # fmt: skip
paid = []


@application.task
def bill(order):
    """Bill an order."""
    paid.append(order)
    return order
