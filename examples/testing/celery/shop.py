"""A shop whose orders are tasks of Celery."""

import celery

application = celery.Celery("shop")
application.conf.update(task_acks_late=True, task_ignore_result=True, worker_enable_remote_control=False)
paid = []


@application.task
def bill(order):
    """Bill an order."""
    paid.append(order)
