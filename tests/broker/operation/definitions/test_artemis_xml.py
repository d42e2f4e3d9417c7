from __future__ import annotations

import json
import time
from typing import Any

import pytest

from annulet.broker.broker import Broker
from annulet.broker.operation.definitions import artemis_xml
from annulet.broker.operation.definitions.applying import read_document
from annulet.broker.operation.definitions.artemis_xml import (
    DEPTH_MAX,
    PART_BYTES_MAX,
    PIECE_BYTES,
    UNKNOWN_NAMES_MAX,
    XML_BYTES_MAX,
    is_xml,
    read_broker_xml,
)
from annulet.broker.operation.definitions.planning import Plan, make_plan
from annulet.broker.operation.definitions.reading import Reading
from annulet.core.base.errors import InvalidArgument
from annulet.core.routing.exchanges.address import Address
from annulet.testing import broker

FILE = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<!-- as a broker's directory etc has it -->
<configuration xmlns="urn:activemq" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <core xmlns="urn:activemq:core">
    <name>east</name>
    <acceptors><acceptor name="amqp">tcp://0.0.0.0:5672?protocols=AMQP</acceptor></acceptors>
    <address-settings>
      <address-setting match="shop.#">
        <dead-letter-address>lost</dead-letter-address>
        <max-delivery-attempts>3</max-delivery-attempts>
        <max-size-bytes>20M</max-size-bytes>
        <address-full-policy>BLOCK</address-full-policy>
        <page-size-bytes>10MB</page-size-bytes>
        <redistribution-delay>0</redistribution-delay>
        <colour>red</colour>
      </address-setting>
      <address-setting match="/a/#"><default-ring-size>5</default-ring-size></address-setting>
    </address-settings>
    <addresses>
      <address name="shop.orders">
        <anycast>
          <queue name="shop.orders" max-consumers="4" exclusive="true">
            <durable>false</durable><filter string="n &gt; 5"/>
          </queue>
        </anycast>
        <multicast><queue name="audit" ring-size="100" enabled="false"><user>ann</user></queue></multicast>
      </address>
      <address name="news"><multicast/></address>
      <address name="any"/>
      <address name="old"><queue name="direct"/></address>
    </addresses>
    <diverts>
      <divert name="copy">
        <routing-name>r</routing-name>
        <address>shop.orders</address>
        <forwarding-address>news, any</forwarding-address>
        <filter string="n = 1"/>
        <exclusive>true</exclusive>
        <routing-type>MULTICAST</routing-type>
      </divert>
      <divert name="changed">
        <address>a</address><forwarding-address>b</forwarding-address>
        <transformer-class-name>org.example.T</transformer-class-name>
      </divert>
    </diverts>
  </core>
</configuration>
"""


async def apply(running: Broker, text: str) -> Plan:
    return await running.definition_imports.apply(await read_document(text.encode()), None)


def refused(text: str | bytes) -> str:
    octets = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(InvalidArgument) as error:
        list(read_broker_xml(octets, Reading()))
    return str(error.value)


def not_taken(text: str) -> dict[str, str]:
    reading = Reading()
    list(read_broker_xml(text.encode(), reading))
    return {each.name: each.reason for each in reading.not_taken}


async def test_a_file_is_taken_but_for_parts_that_are_named() -> None:
    async with broker(http=False) as running:
        plan = await apply(running.broker, FILE)
        host = running.broker.hosts["/"]
        orders = host.queues["shop.orders"]
        assert not orders.durable
        assert (orders.settings.max_consumers, orders.settings.exclusive_consumer) == (4, True)
        assert orders.settings.selector == "n > 5"
        assert orders.settings.max_delivery_attempts == 3
        assert host.settings_of("shop.orders").max_size_bytes == 20 * 2**20
        assert (host.queues["audit"].durable, host.queues["audit"].settings.ring_size) == (True, 100)
        types = {name: node.routing_types for name, node in host.exchanges.items() if isinstance(node, Address)}
        both = ("anycast", "multicast")
        assert types == {"shop.orders": both, "news": ("multicast",), "any": both, "old": both}
        bound = {edge.destination_name: edge.arguments for edge in host.exchanges["shop.orders"].bindings.values()}
        assert bound == {
            "shop.orders": {"x-routing-type": "anycast"},
            "audit": {"x-routing-type": "multicast"},
        }
        divert = host.diverts.by_name["copy"]
        assert (divert.address, divert.forwarding_addresses) == ("shop.orders", ("news", "any"))
        assert (divert.selector_text, divert.exclusive, divert.routing_type) == ("n = 1", True, "multicast")
        reasons = {each.name: each.reason for each in plan.not_taken}
        assert set(reasons) == {
            "name",
            "acceptors",
            "shop.#: redistribution-delay",
            "shop.#: colour",
            "/a/#",
            "audit: enabled",
            "audit: user",
            "queue 'direct' of address 'old'",
            "changed",
            "audit",
        }
        assert "there is no cluster" in reasons["shop.#: redistribution-delay"]
        assert "stands for whole words" in reasons["/a/#"]
        assert "transformer-class-name" in reasons["changed"]
        assert "not by that of its address 'shop.orders'" in reasons["audit"]
        again = await make_plan(running.broker, await read_document(FILE.encode()))
        assert (again.steps, again.conflicts) == ([], [])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("<addresses><address name='a'><anycast><queue name='q'/></anycast></address></addresses>", {"a", "q"}),
        ("<address name='a'/>\n<address name='b'/>", {"a", "b"}),
        ("<c:core xmlns:c='urn:activemq:core'><c:address name='a'/></c:core>", {"a"}),
        ("\ufeff  <address-setting match='m'><no-expiry>true</no-expiry></address-setting>", {"m"}),
    ],
)
def test_parts_of_a_file_as_manuals_show_them_are_read(text: str, names: set[str]) -> None:
    reading = Reading()
    list(read_broker_xml(text.encode(), reading))
    assert {item.key[0] for item in reading.items.values() if item.kind != "binding"} == names
    assert reading.not_taken == []
    assert is_xml(text.encode())
    assert not is_xml(b' {"queues": []}')


def test_arguments_that_need_each_other_are_taken_together() -> None:
    text = (
        "<address name='g'><anycast><queue name='g' group-rebalance='true' group-rebalance-pause-dispatch='true'/>"
        "</anycast></address>"
    )
    assert not_taken(text) == {}
    assert set(not_taken(text.replace("group-rebalance='true'", "colour='red'"))) == {
        "g: colour",
        "g: group-rebalance-pause-dispatch",
    }


def test_document_types_and_entities_are_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY x "xxxxxxxx"><!ENTITY y "&x;&x;&x;">]><addresses><address name="&y;"/></addresses>'
    assert "document type" in refused(bomb)
    assert "document type" in refused('<?xml version="1.0"?><!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>')
    assert "entities" in refused("<address name='&outside;'/>")
    assert "line 1" in refused("<address name='a'>")
    assert "write it in UTF-8" in refused('<?xml version="1.0" encoding="UTF-16"?><a/>')
    assert "the XML is wrong" in refused(b"<address name='\xff'/>")


def test_size_and_depth_are_bounded() -> None:
    assert str(XML_BYTES_MAX) in refused(b"<" + b" " * XML_BYTES_MAX)
    within = "<core>" * (DEPTH_MAX - 1) + "</core>" * (DEPTH_MAX - 1)
    assert not_taken(within) == {}
    assert str(DEPTH_MAX) in refused(f"<core>{within}</core>")
    assert "tag, comment or text" in refused(f"<!--{'x' * 2 * PART_BYTES_MAX}-->")
    assert "address-setting 'm'" in refused(
        f"<address-setting match='m'>{'<a>12345678</a>' * (PART_BYTES_MAX // 8)}</address-setting>"
    )


def test_a_large_file_is_read_in_pieces_with_turns_between() -> None:
    queues = "".join(f"<queue name='q{number}' ring-size='5'/>" for number in range(2000))
    document = f"<address name='a'><anycast>{queues}</anycast></address>".encode()
    reading = Reading()
    most = before = 0
    for _ in read_broker_xml(document, reading):
        most, before = max(most, len(reading.items) - before), len(reading.items)
    assert len(reading.items) == 4001
    assert most <= 2 * PIECE_BYTES // len("<queue name='q0' ring-size='5'/>") + 2


async def test_a_document_of_json_is_read_as_before() -> None:
    reading = await read_document(json.dumps({"queues": [{"name": "q"}]}).encode())
    names: list[Any] = [item.key for item in reading.items.values()]
    assert names == [("q",)]


def longest_step(text: str) -> float:
    """Return the longest CPU time between two places where other tasks get a turn."""
    steps = read_broker_xml(text.encode(), Reading())
    longest = 0.0
    while True:
        begun = time.thread_time()
        try:
            next(steps)
        except (StopIteration, InvalidArgument):
            return max(longest, time.thread_time() - begun)
        longest = max(longest, time.thread_time() - begun)


@pytest.mark.parametrize(
    "part",
    [
        "<address-setting match='a'>{}</address-setting>",
        "<address name='a'><anycast><queue name='q'>{}</queue></anycast></address>",
    ],
)
def test_other_tasks_get_turns_between_unknown_settings(part: str) -> None:
    # the name that was meant is looked for, for each of them: 12 KB blocked the event loop for 10 s
    names = [f"max-size-{number}" for number in range(UNKNOWN_NAMES_MAX)]
    assert longest_step(part.format("".join(f"<{name}/>" for name in names))) < 0.1
    assert len(not_taken(part.format("".join(f"<{name}/>" for name in names)))) == UNKNOWN_NAMES_MAX
    assert f"more than {UNKNOWN_NAMES_MAX} names" in refused(part.format("".join(f"<a{n}/>" for n in range(2000))))


def test_comparing_queues_with_patterns_gives_turns_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = "".join(f"<queue name='q{number}.x'/>" for number in range(150))
    patterns = "".join(f"<address-setting match='{number}.#'/>" for number in range(150))
    text = f"<address name='a'><anycast>{queues}</anycast></address>{patterns}"
    assert longest_step(text) < 0.1
    assert not_taken(text) == {}
    monkeypatch.setattr(artemis_xml, "COMPARED_MAX", 1000)
    assert "nobody has compared them" in not_taken(text)["q6.x"]


@pytest.mark.parametrize("match", ["q", "a", "q.#"])
def test_a_queue_with_another_name_than_its_address_is_named(match: str) -> None:
    text = f"<address name='a'><anycast><queue name='q'/></anycast></address><address-setting match='{match}'/>"
    assert "write them for 'q' as well" in not_taken(text)["q"]


def test_parts_that_are_not_taken_and_routing_types_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artemis_xml, "REFUSED_MAX", 10)
    assert not_taken("<a/>" * 10)
    assert "more than 10 parts" in refused("<a/>" * 11)
    reading = Reading()
    list(read_broker_xml(f"<address name='a'>{'<anycast/>' * 1000}</address>".encode(), reading))
    (item,) = reading.items.values()
    assert len(str(item.value)) < 300


def test_long_names_are_cut_off_in_the_list_of_parts_that_are_not_taken() -> None:
    kids = "".join(f"<x{number}/>" for number in range(20))
    text = f"<address name='a'><anycast><queue name='{'n' * 60_000}'>{kids}</queue></anycast></address>"
    assert sum(len(name) + len(reason) for name, reason in not_taken(text).items()) < 200_000
