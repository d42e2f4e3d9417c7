"""A shop whose orders are tasks of taskiq."""

from taskiq_aio_pika import AioPikaBroker

paid = []


def shop(url):
    """Return the broker and the task that bills orders."""
    broker = AioPikaBroker(url)

    @broker.task(task_name="bill")
    async def bill(order: dict) -> None:
        paid.append(order)

    return broker, bill
