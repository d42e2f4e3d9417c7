"""A shop whose orders are tasks of Celery."""

import os

import celery

application = celery.Celery("shop", broker=os.environ.get("BROKER_URL"))
application.conf.update(task_acks_late=True, task_ignore_result=True)


@application.task
def bill(order):
    """Bill an order."""
    print(f"order {order['id']} is paid", flush=True)
