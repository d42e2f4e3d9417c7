"""Names of other brokers: what they mean here, and where Broker-J ignores what is written."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.arguments.peers import ALIASES, REFUSED_NAMES
from annulet.core.configuration.arguments.queues import parse_queue_arguments

ARTEMIS = "_AMQ_LVQ_NAME"


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({"last-value-key": "k"}, QueueSettings(last_value_key="k", last_value_fallback=ARTEMIS)),
        ({"last-value-key": ARTEMIS}, QueueSettings(last_value_key=ARTEMIS)),
        ({"last-value": True}, QueueSettings(last_value_key=ARTEMIS)),
        ({"x-last-value": "true", "last-value": 1}, QueueSettings(last_value_key=ARTEMIS)),
        ({"last-value": True, "x-last-value-key": "k"}, QueueSettings(last_value_key="k")),
        ({"last-value": False}, QueueSettings()),
        ({"qpid.last_value_queue": 1}, QueueSettings(last_value_key="qpid.LVQ_key")),
        ({"qpid.last_value_queue": True, "qpid.last_value_queue_key": "k"}, QueueSettings(last_value_key="k")),
        ({"qpid.last_value_queue": False}, QueueSettings()),
        ({"lvqKey": "k"}, QueueSettings(last_value_key="k")),
        ({"x-qpid-priorities": "10"}, QueueSettings(priorities=10)),
        ({"qpid.queue_sort_key": "s", "sortKey": "s"}, QueueSettings(sort_key="s")),
        ({"qpid.group_header_key": "g"}, QueueSettings(group_key="g", group_mode="sticky")),
        ({"qpid.group_header_key": "JMSXGroupID"}, QueueSettings(group_mode="sticky")),
        ({"qpid.group_header_key": "JMSXGroupId", "qpid.shared_msg_group": 1}, QueueSettings(group_mode="shared")),
        ({"qpid.group_header_key": "g", "qpid.shared_msg_group": "0"},
         QueueSettings(group_key="g", group_mode="sticky")),
        ({"qpid.shared_msg_group": False}, QueueSettings()),
        ({"qpid.shared_msg_group": "1", "qpid.default-message-group": "d"},
         QueueSettings(group_mode="shared", default_group="d")),
        ({"maximumDistinctGroups": 255}, QueueSettings(group_buckets=256, group_mode="sticky")),
        ({"maximumDistinctGroups": 1}, QueueSettings(group_buckets=1, group_mode="sticky")),
        ({"qpid.ensure_nondestructive_consumers": True}, QueueSettings(non_destructive=True)),
        ({"qpid.policy_type": "Ring", "qpid.max_count": 4, "qpid.max_size": 100},
         QueueSettings(overflow="ring", max_length=4, max_bytes=100, limit_counts="all")),
        ({"qpid.policy_type": "none", "qpid.max_count": 2}, QueueSettings(max_length=2, limit_counts="all")),
        ({"overflowPolicy": "FLOW_TO_DISK", "maximumQueueDepthBytes": 0},
         QueueSettings(overflow="page", max_bytes=0, limit_counts="all")),
        ({"qpid.policy_type": "reject", "maximumQueueDepthMessages": 5, "x-limit-counts": "ready"},
         QueueSettings(overflow="reject", max_length=5)),
        ({"qpid.max_count": -5}, QueueSettings(limit_counts="all")),
        ({"x-qpid-capacity": 100, "x-qpid-flow-resume-capacity": 60},
         QueueSettings(max_bytes=100, overflow="block", resume_bytes=60, limit_counts="all")),
        ({"x-qpid-capacity": 100, "x-overflow": "reject"},
         QueueSettings(max_bytes=100, overflow="reject", limit_counts="all")),
        ({"x-qpid-maximum-delivery-count": 0, "maximumLiveConsumers": 0, "minimumMessageTtl": 0}, QueueSettings()),
        ({"maximumDeliveryAttempts": 3, "maximumLiveConsumers": 2, "maximumMessageTtl": 9},
         QueueSettings(max_delivery_attempts=3, live_consumers_max=2, max_ttl=9)),
        ({"x-single-active-consumer": "true", "noLocal": True},
         QueueSettings(single_active_consumer=True, no_local=True)),
        ({"qpid.exclusivity_policy": "link"}, QueueSettings(max_consumers=1)),
        ({"qpid.exclusivity_policy": "NONE", "qpid.lifetime_policy": "PERMANENT", "qpid.message_durability": "DEFAULT"},
         QueueSettings()),
        ({"x-qpid-description": "mine", "holdOnPublishEnabled": True}, QueueSettings()),
        ({"x-qpid-dlq-enabled": True}, QueueSettings(dead_letter_address="orders_DLQ")),
        ({"x-qpid-dlq-enabled": "false"}, QueueSettings()),
    ],
    ids=str,
)  # fmt: skip
def test_meaning(arguments, settings):
    assert parse_queue_arguments(arguments, "orders") == settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x-qpid-capacity": 100}, "'x-qpid-capacity' .100. limits nothing without a policy"),
        ({"qpid.max_count": 5}, "limits nothing without a policy"),
        ({"qpid.max_size": 5, "x-max-length": 5}, "limits nothing without a policy"),
        ({"x-qpid-capacity": 5, "x-qpid-flow-resume-capacity": 6}, "at most 'x-max-bytes'"),
        ({"x-qpid-flow-resume-capacity": 6}, "no limit to run over"),
        ({"x-qpid-capacity": 9, "x-qpid-flow-resume-capacity": 6, "qpid.policy_type": "ring"}, "different values"),
        ({"qpid.policy_type": "whatever"}, "NONE or RING or PRODUCER_FLOW_CONTROL"),
        ({"qpid.shared_msg_group": 2}, "true or false"), ({"qpid.group_header_key": ""}, "message property, not ''"),
        ({"x-qpid-priorities": 0}, "1 to 256"), ({"qpid.exclusivity_policy": "CONNECTION"}, "declare it exclusive"),
        ({"qpid.lifetime_policy": "IN_USE"}, "'PERMANENT', not 'IN_USE'"),
        ({"qpid.message_durability": "NEVER"}, "not durable"), ({"holdOnPublishEnabled": False}, "must be true"),
        ({"minimumMessageTtl": 2**63 - 1}, "1 to 315360000000|0 to 315360000000"),
        ({"last-value": False, "x-last-value-key": "k"}, "is false but a last-value key is given"),
        ({"last-value": "perhaps"}, "true or false"),
        ({"last-value": True, "qpid.last_value_queue": True}, "different last-value keys"),
        ({"x-qpid-dlq-enabled": True, "x-dead-letter-address": "other"}, "different values"),
        ({"x-qpid-dlq-enabled": True, "x-dead-letter-exchange": ""}, "a message dies once"),
    ],
    ids=str,
)  # fmt: skip
def test_refused(arguments, words):
    with pytest.raises(InvalidArgument, match=words):
        parse_queue_arguments(arguments, "orders")


def test_a_dead_letter_queue_needs_the_name_of_its_queue():
    with pytest.raises(InvalidArgument, match="needs a queue with a name of its own; give 'x-dead-letter-address'"):
        parse_queue_arguments({"x-qpid-dlq-enabled": True})


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_what_is_known_but_not_accepted_says_what_to_do(name):
    with pytest.raises(InvalidArgument) as caught:
        parse_queue_arguments({name: 5})
    text = str(caught.value)
    assert text.startswith(f"argument '{name}' ")
    assert "give" in text or "leave it out" in text or "declare" in text or "address setting" in text or "watch" in text
    assert len(text) <= 255


@pytest.mark.parametrize("name", ALIASES)
def test_no_alias_takes_every_value(name):
    with pytest.raises(InvalidArgument, match=f"argument '{name}' must be"):
        parse_queue_arguments({name: {"a": "table"}})
