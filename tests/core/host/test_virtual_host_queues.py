"""Declaring, changing and using queues: where their settings come from, and who may consume."""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.base.errors import AccessRefused, InvalidArgument, NotFound, PreconditionFailed, ResourceLocked
from tests.core.helpers import NOW, RecordingSession
from tests.core.node_helpers import declare, held, make_host, note, send


def test_a_declared_argument_wins_over_policy_and_address_setting_and_each_says_where_it_is_from():
    host = make_host({"q": {"default-ring-size": 1, "default-max-consumers": 4, "message-ttl": 9}})
    host.policies.set("limits", "^q", {"max-length": 7, "ring-size": 2})
    (queue,) = declare(host, "q", arguments={"x-ring-size": 3})
    settings = queue.settings
    assert (settings.ring_size, settings.max_length, settings.max_consumers) == (3, 7, 4)
    assert queue.origins["ring_size"].startswith("argument")
    assert queue.origins["max_length"].startswith("policy")
    assert queue.origins["max_consumers"].startswith("address setting")
    assert queue.origins["sort_key"] == "default"
    assert host.resolved_for(queue).settings == settings


def test_a_queue_of_an_address_goes_by_the_addresss_settings():
    host = make_host({"news": {"default-ring-size": 5}})
    (queue,) = declare(host, "mine", address="news")
    assert queue.settings.ring_size == 5
    assert host.settings_address_of(queue) == "news"


def test_declaring_again_takes_what_was_declared_and_what_is_in_force():
    host = make_host({"q": {"default-ring-size": 5}})
    (queue,) = declare(host, "q")
    host.address_settings.set("q", {"default-ring-size": 6, "message-ttl": 100})
    assert declare(host, "q") == [queue]
    assert declare(host, "q", arguments={"x-ring-size": 5}) == [queue]
    text = r"arg 'x-ring-size' for queue 'q'.*received '6' but current is '5', by .*, and it was declared with none"
    with pytest.raises(PreconditionFailed, match=text):
        declare(host, "q", arguments={"x-ring-size": 6})


def test_live_settings_follow_at_once_and_copied_ones_stay():
    host = make_host({"#": {"default-ring-size": 5, "dead-letter-address": "old"}})
    (queue,) = declare(host, "q")
    host.address_settings.set("q", {"default-ring-size": 9, "dead-letter-address": "new", "max-delivery-attempts": 3})
    assert queue.settings.ring_size == 5
    assert (queue.settings.dead_letter_address, queue.settings.max_delivery_attempts) == ("new", 3)
    assert queue.origins["dead_letter_address"] == "address setting 'q'"
    host.address_settings.remove("q")
    assert (queue.settings.dead_letter_address, queue.settings.max_delivery_attempts) == ("old", -1)


def test_policies_follow_at_once():
    host = make_host()
    (queue,) = declare(host, "q")
    host.policies.set("p", "^q", {"max-length": 1, "overflow": "reject-publish"})
    assert send(host, "q", "A") == 1
    assert queue.may_refuse
    assert not host.route("", "q").static
    host.policies.remove("p")
    assert queue.settings.max_length == -1
    assert host.route("", "q").static


def test_a_filter_keeps_out_what_does_not_match():
    host = make_host()
    (queue,) = declare(host, "q", arguments={"x-selector": "size > 2"})
    assert send(host, "q", "A", size=3) == 1
    assert send(host, "q", "B", size=1) == 0
    assert send(host, "q", "C") == 0
    host.update_queue(queue, replace(queue.settings, selector=""), NOW)
    assert send(host, "q", "D", size=1) == 1
    host.update_queue(queue, replace(queue.settings, selector="size = 0"), NOW)
    assert send(host, "q", "E", size=1) == 0
    assert held(host, "q") == [["A", "D"]]


def test_a_filter_that_is_none_is_refused_and_leaves_no_queue():
    host = make_host()
    with pytest.raises(InvalidArgument, match="x-selector' is no selector"):
        declare(host, "q", arguments={"x-selector": "size >"})
    assert host.queues == {}
    (queue,) = declare(host, "q")
    with pytest.raises(InvalidArgument):
        host.update_queue(queue, replace(queue.settings, selector="size >", message_ttl=5), NOW)
    assert queue.settings.message_ttl == -1


def test_max_consumers():
    host = make_host()
    (queue,) = declare(host, "q", arguments={"x-max-consumers": 2})
    for tag in "ab":
        host.check_consumer(queue, exclusive=False)
        RecordingSession().consume(queue, tag)
    with pytest.raises(AccessRefused, match="has 2 consumers and max-consumers is 2"):
        host.check_consumer(queue, exclusive=False)
    with pytest.raises(PreconditionFailed, match="cannot be 1: it has 2 consumers"):
        host.update_queue(queue, replace(queue.settings, max_consumers=1), NOW)
    host.update_queue(queue, replace(queue.settings, max_consumers=-1), NOW)
    host.check_consumer(queue, exclusive=False)


def test_a_deleted_queue_leaves_nothing_behind():
    host = make_host()
    (queue,) = declare(host, "q", arguments={"x-selector": "size > 2"})
    host.delete_queue(queue, NOW)
    assert host.filters == {}
    assert host.settings_address_of(queue) == "q"
    with pytest.raises(KeyError):
        host.resolved_for(queue)


def test_a_policy_below_the_present_consumers_holds_for_those_to_come():
    host = make_host()
    (queue,) = declare(host, "q")
    for tag in "ab":
        RecordingSession().consume(queue, tag)
    host.policies.set("p", "^q", {"max-consumers": 1})
    assert queue.settings.max_consumers == 1
    assert queue.consumers.count == 2
    with pytest.raises(AccessRefused, match="max-consumers is 1"):
        host.check_consumer(queue, exclusive=False)


def test_an_operators_change_holds_against_policies_and_says_so():
    host = make_host()
    (queue,) = declare(host, "q", arguments={"x-ring-size": 3})
    host.change_queue(queue, {"ring-size": 5, "message-ttl": 7}, NOW)
    host.update_queue(queue, replace(queue.settings, max_consumers=9), NOW)
    host.policies.set("p", "^q", {"message-ttl": 100, "max-consumers": 1, "max-length": 50})
    settings = queue.settings
    assert (settings.ring_size, settings.message_ttl, settings.max_consumers, settings.max_length) == (5, 7, 9, 50)
    assert [queue.origins[field] for field in ("ring_size", "message_ttl", "max_consumers")] == ["operator"] * 3
    with pytest.raises(InvalidArgument, match="cannot be changed"):
        host.change_queue(queue, {"x-max-priority": 5}, NOW)
    RecordingSession().consume(queue, "a")
    RecordingSession().consume(queue, "b")
    with pytest.raises(PreconditionFailed, match="it has 2 consumers"):
        host.change_queue(queue, {"max-consumers": 1, "message-ttl": 8}, NOW)
    assert queue.settings.message_ttl == 7


def test_a_queue_whose_messages_are_scheduled_is_not_empty():
    host = make_host()
    (queue,) = declare(host, "q")
    message = note("later")
    message.deliver_at = NOW + 1000
    host.publisher.publish(message, host.route("", "q"), NOW)
    with pytest.raises(PreconditionFailed, match="not empty: it holds 1 messages"):
        host.delete_queue(queue, NOW, if_empty=True)
    queue.purge(NOW)
    assert host.delete_queue(queue, NOW, if_empty=True) == 0


def test_the_name_of_a_management_node_is_refused_unless_it_was_accepted_once():
    host = make_host()
    with pytest.raises(AccessRefused, match=r"'\$cbs'.*is reserved for a management node"):
        host.declare_queue("$cbs", now=NOW)
    with pytest.raises(NotFound, match=r"no management node '\$cbs'"):
        host.nodes.resolve_node("/queues/%24cbs", NOW)
    old = host.declare_queue("$cbs", now=NOW, server_named=True)  # as recovery does
    assert host.nodes.resolve_node("$cbs", NOW).queue is old


def test_an_exclusive_queue_is_locked_for_all_but_its_owner():
    host = make_host()
    owner = object()
    queue = host.declare_queue("mine", now=NOW, owner=owner)
    host.check_owner(queue, owner)
    for other in (None, object()):
        with pytest.raises(ResourceLocked, match="locked queue 'mine'"):
            host.check_owner(queue, other)
