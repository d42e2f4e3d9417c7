"""``GET /api/v1/queues/{vhost}/{name}/why-not``: why consumers of a queue get nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Need, Operation, Resource
from annulet.admin.interface.schemas import SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import PAGES, Value
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.settings.configuration import nearest_name
from annulet.core.management.why_not import why_not

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.management.why_not import WhyNot
    from annulet.core.model.consumer import Consumer


async def explain_consumers(call: Call) -> Response:
    """A page of consumers, each with the obstacles for the queue's first message; ``consumer`` selects one tag.

    A tag is unique in its channel only, so several may have it. Needs permission to read the queue, as the answer
    quotes properties of messages.
    """
    page, queue = call.page, call.queue_to_read()
    consumers = list(queue.consumers)
    tag = call.parameters.get("consumer")
    found = consumers if tag is None else [consumer for consumer in consumers if consumer.tag == tag]
    if tag is not None and not found:
        hint = nearest_name(tag, {consumer.tag: None for consumer in consumers}) if consumers else "; it has none"
        raise ResourceError(
            404, f"no consumer {tag!r} of queue {queue.name!r} in virtual host {call.host().name!r}{hint}"
        )
    items: list[dict[str, Any]] = []
    for consumer in page.take(found):
        items.append(describe_answer(consumer, why_not(queue, consumer, call.now)))
        await asyncio.sleep(0)
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(consumers)))


def describe_answer(consumer: Consumer, answer: WhyNot) -> dict[str, Any]:
    """Return the JSON of one answer: the first finding is the most important one."""
    return {
        "consumer": consumer.tag,
        "session": consumer.session.name,
        "deliverable": answer.deliverable,
        "findings": [
            {
                "obstacle": finding.obstacle.value,
                "text": finding.text,
                "message": finding.sequence,
                "details": finding.details.splitlines(),
            }
            for finding in answer.findings
        ],
        "message": answer.sequence,
        "looked": answer.looked,
        "pending": answer.pending,
    }


CONSUMER_SCHEMA: Final = object_of(consumer=TEXT_SCHEMA, session=TEXT_SCHEMA, deliverable=SWITCH_SCHEMA)

RESOURCES: Final = (
    Resource(
        "queues/{vhost}/{queue}/why-not",
        "queues",
        (
            Operation(
                "GET",
                "why_not",
                "Why consumers of a queue get nothing.",
                explain_consumers,
                needs=(Need("read", "queue"),),
                parameters=(*PAGES, Value("consumer", "the tag of a consumer, for it only")),
                answers={200: Answer("A page of consumers, each with its obstacles.", page_of(CONSUMER_SCHEMA))},
            ),
        ),
    ),
)
