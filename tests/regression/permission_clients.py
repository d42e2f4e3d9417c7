"""One client for each protocol, with a method for each operation of the table that the protocol has.

A method is named as its operation, takes the number of its case, and returns what came of it after it has checked that
the answer is the one the protocol prescribes.
"""

from __future__ import annotations

import base64
import uuid
from typing import Any, Final

import httpx
import pyarrow as pa
from pamqp import commands

from annulet.admin.application import build_application
from annulet.broker.broker import Broker
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.security.tokens import TokenScope
from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import BulkError, PermissionDeniedError, RefusedError
from annulet.bulk.protocol.url import BulkUrl
from annulet.store.database.definitions import PermissionRecord
from annulet.wire.amqp10.frames.frames import AMQP_HEADER
from annulet.wire.amqp10.frames.outcomes import Rejected
from annulet.wire.amqp10.frames.performatives import Close, Open, Source, Target
from annulet.wire.amqp10.frames.terminus import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER
from annulet.wire.amqp10.types import conditions
from annulet.wire.stomp.frames import Frame
from tests.broker.amqp091 import peer as amqp091
from tests.broker.amqp10 import peer as amqp10
from tests.broker.stomp import peer as stomp
from tests.bulk.helpers import away
from tests.regression.permission_matrix import ALLOWED, LOCKED, NO_ENTRY, REFUSED

REFUSAL: Final = "' in vhost '/' refused for user '"
LOCK: Final = "it belongs to another connection"


class Amqp091Client:
    """AMQP 0-9-1: 403 or 405 on the channel; 530 at connection.open."""

    def __init__(self, broker: Broker, user: str, number: int) -> None:
        self.broker = broker
        self.user = user
        self.number = number
        self.peer = amqp091.Peer(broker)

    async def run(self, method: str) -> str:
        """Log in, carry the operation out, and say what came of it."""
        peer = self.peer
        peer.receive(b"AMQP\x00\x00\x09\x01")
        await peer.send(0, commands.Connection.StartOk({}, "PLAIN", f"\0{self.user}\0{self.user}", "en_US"))
        await peer.checked()
        await peer.send(0, commands.Connection.TuneOk(100, 131_072, 0), commands.Connection.Open("/"))
        closes = [item for item in await peer.take() if isinstance(item, commands.Connection.Close)]
        if closes:
            assert closes[0].reply_code == 530
            assert f"access to vhost '/' refused for user '{self.user}'" in closes[0].reply_text
            return NO_ENTRY
        await peer.send(1, commands.Channel.Open(), commands.Confirm.Select())
        await peer.take()
        items, answer = getattr(self, method)(self.number)
        await peer.send(1, *(items if isinstance(items, tuple) else (items,)))
        frames = await peer.take()
        closes = [item for item in frames if isinstance(item, commands.Channel.Close)]
        if not closes:
            assert any(isinstance(item, answer) for item in frames), frames
            return ALLOWED
        (close,) = closes
        if close.reply_code == 405:
            assert LOCK in close.reply_text
            return LOCKED
        assert close.reply_code == 403
        assert REFUSAL in close.reply_text
        return REFUSED

    async def end(self) -> None:
        """Cut the connection."""
        self.peer.transport.abort()
        await amqp091.turns()

    def declare_queue(self, number: int) -> Any:
        return commands.Queue.Declare(0, f"new{number}"), commands.Queue.DeclareOk

    def declare_queue_with_target(self, number: int) -> Any:
        arguments = {"x-dead-letter-address": f"target{number}"}
        return commands.Queue.Declare(0, f"new{number}", arguments=arguments), commands.Queue.DeclareOk

    def declare_generated(self, number: int) -> Any:
        return commands.Queue.Declare(0, "", exclusive=True), commands.Queue.DeclareOk

    def await_replies(self, number: int) -> Any:
        return commands.Basic.Consume(0, "amq.rabbitmq.reply-to", no_ack=True), commands.Basic.ConsumeOk

    def declare_again(self, number: int) -> Any:
        return commands.Queue.Declare(0, f"queue{number}"), commands.Queue.DeclareOk

    def delete_queue(self, number: int) -> Any:
        return commands.Queue.Delete(0, f"queue{number}"), commands.Queue.DeleteOk

    def purge_queue(self, number: int) -> Any:
        return commands.Queue.Purge(0, f"queue{number}"), commands.Queue.PurgeOk

    def bind_queue(self, number: int) -> Any:
        return commands.Queue.Bind(0, f"queue{number}", f"exchange{number}", "other"), commands.Queue.BindOk

    def unbind_queue(self, number: int) -> Any:
        return commands.Queue.Unbind(0, f"queue{number}", f"exchange{number}", "bound"), commands.Queue.UnbindOk

    def declare_exchange(self, number: int) -> Any:
        return commands.Exchange.Declare(0, f"new{number}", "fanout"), commands.Exchange.DeclareOk

    def declare_exchange_with_target(self, number: int) -> Any:
        arguments = {"alternate-exchange": f"target{number}"}
        return commands.Exchange.Declare(0, f"new{number}", "fanout", arguments=arguments), commands.Exchange.DeclareOk

    def delete_exchange(self, number: int) -> Any:
        return commands.Exchange.Delete(0, f"exchange{number}"), commands.Exchange.DeleteOk

    def bind_exchange(self, number: int) -> Any:
        return commands.Exchange.Bind(0, f"destination{number}", f"exchange{number}", "k"), commands.Exchange.BindOk

    def unbind_exchange(self, number: int) -> Any:
        method = commands.Exchange.Unbind(0, f"destination{number}", f"exchange{number}", "bound")
        return method, commands.Exchange.UnbindOk

    def look_at_queue(self, number: int) -> Any:
        return commands.Queue.Declare(0, f"queue{number}", passive=True), commands.Queue.DeclareOk

    def publish(self, number: int) -> Any:
        return amqp091.publish(1, "k", exchange=f"exchange{number}"), commands.Basic.Ack

    def publish_to_queue(self, number: int) -> Any:
        return amqp091.publish(1, f"queue{number}"), commands.Basic.Ack

    def consume(self, number: int) -> Any:
        return commands.Basic.Consume(0, f"queue{number}"), commands.Basic.ConsumeOk

    def browse(self, number: int) -> Any:
        return commands.Basic.Consume(0, f"queue{number}", arguments={"x-browse": True}), commands.Basic.ConsumeOk

    def get(self, number: int) -> Any:
        return commands.Basic.Get(0, f"queue{number}"), commands.Basic.GetOk


class Amqp10Client:
    """AMQP 1.0: a detached link or a rejected message, ``amqp:unauthorized-access`` or ``amqp:resource-locked``."""

    anonymous = False  # messages are sent to the anonymous terminus, and say where they go

    def __init__(self, broker: Broker, user: str, number: int) -> None:
        self.user = user
        self.number = number
        self.peer = amqp10.Peer(broker)

    async def run(self, method: str) -> str:
        """Log in, carry the operation out, and say what came of it."""
        peer = self.peer
        outcome = await peer.log_in("PLAIN", f"\0{self.user}\0{self.user}".encode())
        assert outcome.code == 0
        await peer.send(AMQP_HEADER, Open("client", None))
        closes = [item.performative for item in await peer.take() if isinstance(item.performative, Close)]
        if closes:
            assert closes[0].error.condition == conditions.UNAUTHORIZED_ACCESS
            return NO_ENTRY
        await peer.begin(0)
        result: str = await getattr(self, method)(self.number)
        return result

    async def end(self) -> None:
        """Cut the connection."""
        await self.peer.lose()

    async def _attached(self, link: amqp10.PeerLink) -> str:
        assert link.answer is not None
        if (link.answer.source if link.receiver else link.answer.target) is not None:
            return ALLOWED
        error = await self.peer.refusal(link)
        return _judged(error.condition, error.description or "")

    async def _send(self, address: str) -> str:
        link = await self.peer.sender(None if self.anonymous else address)
        result = await self._attached(link)
        if result != ALLOWED:
            return result
        state = await self.peer.publish(link, amqp10.message(to=address) if self.anonymous else amqp10.message())
        if isinstance(state, Rejected):
            assert state.error is not None
            return _judged(state.error.condition, state.error.description or "")
        assert state == amqp10.ACCEPTED
        return ALLOWED

    async def _receive(self, address: str | None, name: str = "receiver", **fields: Any) -> str:
        return await self._attached(await self.peer.receiver(None, name=name, source=Source(address, **fields)))

    async def publish(self, number: int) -> str:
        return await self._send(f"/exchanges/exchange{number}/k")

    async def publish_to_queue(self, number: int) -> str:
        return await self._send(f"queue{number}")

    async def make_by_sending(self, number: int) -> str:
        return await self._send(f"new{number}")

    async def make_topic_by_sending(self, number: int) -> str:
        return await self._send(f"topic://new{number}")

    async def consume(self, number: int) -> str:
        return await self._receive(f"queue{number}")

    async def browse(self, number: int) -> str:
        return await self._receive(f"queue{number}", distribution_mode="copy")

    async def make_by_consuming(self, number: int) -> str:
        return await self._receive(f"new{number}")

    async def make_topic_by_subscribing(self, number: int) -> str:
        return await self._receive(f"topic://new{number}")

    async def subscribe(self, number: int) -> str:
        return await self._receive(f"address{number}")

    async def subscribe_durably(self, number: int) -> str:
        return await self._receive(
            f"address{number}",
            name=f"subscription{number}",
            durable=DURABLE_UNSETTLED_STATE,
            expiry_policy=EXPIRE_NEVER,
        )

    async def temporary_queue(self, number: int) -> str:
        return await self._receive(None, dynamic=True)

    async def dynamic_queue_to_send_to(self, number: int) -> str:
        return await self._attached(await self.peer.sender(None, target=Target(dynamic=True)))

    async def dynamic_topic_to_send_to(self, number: int) -> str:
        target = Target(dynamic=True, capabilities=["temporary-topic"])
        return await self._attached(await self.peer.sender(None, target=target))

    async def temporary_queue_with_target(self, number: int) -> str:
        return await self._receive(
            None, dynamic=True, dynamic_node_properties={"dead-letter-address": f"target{number}"}
        )


class AnonymousTerminusClient(Amqp10Client):
    """AMQP 1.0 by messages that say where they go."""

    anonymous = True


def _judged(condition: str, text: str) -> str:
    if condition == conditions.RESOURCE_LOCKED:
        assert LOCK in text
        return LOCKED
    assert condition == conditions.UNAUTHORIZED_ACCESS, (condition, text)
    assert REFUSAL in text
    return REFUSED


class StompClient:
    """STOMP: an ERROR that ends the connection."""

    def __init__(self, broker: Broker, user: str, number: int) -> None:
        self.user = user
        self.number = number
        self.peer = stomp.Peer(broker)

    async def run(self, method: str) -> str:
        """Log in, carry the operation out, and say what came of it."""
        peer = self.peer
        login = {"host": "/", "login": self.user, "passcode": self.user, "client-id": "client", "accept-version": "1.2"}
        peer.version = "1.0"
        await peer.send("CONNECT", login)
        answer = await self._answer()
        peer.version = "1.2"
        if answer.command == "ERROR":
            assert f"access to vhost '/' refused for user '{self.user}'" in answer.headers["message"]
            return NO_ENTRY
        command, headers = getattr(self, method)(self.number)
        await peer.send(command, {"id": "1", "receipt": "r", **headers})
        answer = await self._answer()
        if answer.command == "RECEIPT":
            return ALLOWED
        assert answer.command == "ERROR"
        assert peer.transport.closing
        if LOCK in answer.headers["message"]:
            return LOCKED
        assert REFUSAL in answer.headers["message"], answer
        return REFUSED

    async def _answer(self) -> Frame:
        for _ in range(stomp.PATIENCE_TURNS):
            for answer in self.peer.take():
                if answer.command != "MESSAGE":
                    await self.peer.settle()
                    return answer
            await self.peer.settle()
            await amqp091.turns()
        raise AssertionError("no answer came")

    async def end(self) -> None:
        """Cut the connection."""
        self.peer.lose()
        await self.peer.settle()

    def publish(self, number: int) -> Any:
        return "SEND", {"destination": f"/exchange/exchange{number}/k"}

    def publish_to_queue(self, number: int) -> Any:
        return "SEND", {"destination": f"/queue/queue{number}"}

    def make_by_sending(self, number: int) -> Any:
        return "SEND", {"destination": f"/queue/new{number}"}

    def make_topic_by_sending(self, number: int) -> Any:
        return "SEND", {"destination": f"/topic/new{number}"}

    def declare_by_sending(self, number: int) -> Any:
        return "SEND", {"destination": f"/queue/new{number}", "x-dead-letter-address": f"target{number}"}

    def reply_address(self, number: int) -> Any:
        return "SEND", {"destination": f"/exchange/exchange{number}/k", "reply-to": "/temp-queue/r"}

    def consume(self, number: int) -> Any:
        return "SUBSCRIBE", {"destination": f"/queue/queue{number}"}

    def browse(self, number: int) -> Any:
        return "SUBSCRIBE", {"destination": f"/queue/queue{number}", "browser": "true"}

    def make_by_consuming(self, number: int) -> Any:
        return "SUBSCRIBE", {"destination": f"/queue/new{number}"}

    def make_topic_by_subscribing(self, number: int) -> Any:
        return "SUBSCRIBE", {"destination": f"/topic/new{number}"}

    def declare_by_consuming(self, number: int) -> Any:
        return "SUBSCRIBE", {"destination": f"/queue/new{number}", "x-expiry-address": f"target{number}"}

    def subscribe(self, number: int) -> Any:
        return "SUBSCRIBE", {"destination": f"/topic/address{number}"}

    def subscribe_durably(self, number: int) -> Any:
        name = f"subscription{number}"
        return "SUBSCRIBE", {"destination": f"/topic/address{number}", "durable-subscription-name": name}

    def subscribe_durably_with_target(self, number: int) -> Any:
        command, headers = self.subscribe_durably(number)
        return command, {**headers, "x-dropped-address": f"target{number}"}

    def temporary_queue(self, number: int) -> Any:
        return "SUBSCRIBE", {"destination": "/temp-queue/t"}


ON_A_USER = {"delete_user", "put_permission", "delete_permission", "put_limit", "make_token", "delete_token"}
"""Operations on a user that was made at run time: the others are the configuration file's."""


def make_user(broker: Broker, number: int) -> None:
    """Make one, with permissions and a token."""
    name, directory = f"user{number}", broker.access_directory
    directory.set_user(name, (), password_hash=HASHER.hash(name))
    directory.set_permission(PermissionRecord(name, "/", "", "", ""))
    directory.make_token(name, "known", TokenScope(), now=broker.clock(), expires_at=0)


class HttpClient:
    """HTTP: 403, 404 for a virtual host that is not to be seen, 409 for what belongs to a connection."""

    def __init__(self, broker: Broker, user: str, number: int) -> None:
        self.user = user
        self.number = number
        self.application = build_application(broker)

    async def run(self, method: str) -> str:
        """Send the request, and say what came of it."""
        verb, path, body = getattr(self, method)(self.number)
        transport = httpx.ASGITransport(self.application, client=("127.0.0.1", 1))
        credentials = base64.b64encode(f"{self.user}:{self.user}".encode()).decode()
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.request(
                verb, f"/api/v1/{path}", json=body, headers={"Authorization": f"Basic {credentials}"}
            )
        answer = response.json()
        if response.status_code in {200, 201, 202}:
            return REFUSED if answer.get("items") == [] and path.startswith("losses") else ALLOWED
        if response.status_code == 409:
            assert LOCK in answer["reason"]
            return LOCKED
        if response.status_code == 404:
            assert "no virtual host '/'" in answer["reason"]
            return NO_ENTRY
        assert response.status_code == 403, answer
        said = answer["reason"]
        assert REFUSAL in said or "needs one of the tags" in said or "are for administrators" in said
        return REFUSED

    async def end(self) -> None:
        """Do nothing: a request is all there is."""

    @staticmethod
    def _queue(number: int, rest: str = "") -> str:
        return f"queues/%2F/queue{number}{rest}"

    def look_at_queue(self, number: int) -> Any:
        return "GET", self._queue(number), None

    def look(self, number: int) -> Any:
        return "GET", self._queue(number, "/messages?body_bytes=10"), None

    def why_not(self, number: int) -> Any:
        return "GET", self._queue(number, "/why-not"), None

    def losses(self, number: int) -> Any:
        return "GET", f"losses?vhost=/&queue=queue{number}", None

    def change_settings(self, number: int) -> Any:
        return "PATCH", self._queue(number), {"settings": {"ring-size": 50}}

    def change_target(self, number: int) -> Any:
        return "PATCH", self._queue(number), {"settings": {"dead-letter-address": f"target{number}"}}

    def pause(self, number: int) -> Any:
        return "POST", self._queue(number, "/pause"), None

    def operate(self, number: int) -> Any:
        return "POST", self._queue(number, "/operations"), {"operation": "purge"}

    def operate_by_content(self, number: int) -> Any:
        return "POST", self._queue(number, "/operations"), {"operation": "delete", "everything": True, "text": "x"}

    def preview_by_content(self, number: int) -> Any:
        body = {"operation": "expire", "selector": "TRUE OR colour = 'red'", "preview": True}
        return "POST", self._queue(number, "/operations"), body

    def copy(self, number: int) -> Any:
        body = {"operation": "copy", "everything": True, "destination": f"target{number}"}
        return "POST", self._queue(number, "/operations"), body

    def set_policy(self, number: int) -> Any:
        return "PUT", f"policies/%2F/new{number}", {"pattern": f"^none{number}$", "definition": {"ring-size": 1}}

    def see_users(self, number: int) -> Any:
        return "GET", "users", None

    def put_user(self, number: int) -> Any:
        return "PUT", f"users/user{number}", {"password": "x"}

    def delete_user(self, number: int) -> Any:
        return "DELETE", f"users/user{number}", None

    def put_permission(self, number: int) -> Any:
        return "PUT", f"permissions/%2F/user{number}", {"configure": ".*", "write": "", "read": ""}

    def delete_permission(self, number: int) -> Any:
        return "DELETE", f"permissions/%2F/user{number}", None

    def put_limit(self, number: int) -> Any:
        return "PUT", f"users/user{number}", {"limits": {"max-channels": number}}

    def put_host(self, number: int) -> Any:
        return "PUT", f"virtual-hosts/host{number}", {}

    def delete_host(self, number: int) -> Any:
        return "DELETE", f"virtual-hosts/host{number}", None

    def make_token(self, number: int) -> Any:
        return "PUT", f"tokens/user{number}/new", {}

    def delete_token(self, number: int) -> Any:
        return "DELETE", f"tokens/user{number}/known", None


class RabbitMqHttpClient:
    """RabbitMQ's management API: 401 for want of a right, 400 for what belongs to a connection."""

    def __init__(self, broker: Broker, user: str, number: int) -> None:
        self.user = user
        self.number = number
        self.application = build_application(broker)

    async def run(self, method: str) -> str:
        """Send the request, and say what came of it."""
        verb, path, body = getattr(self, method)(self.number)
        transport = httpx.ASGITransport(self.application, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.request(verb, f"/api/{path}", json=body, auth=(self.user, self.user))
        if response.status_code in {200, 201, 204}:
            return ALLOWED
        answer = response.json()
        if response.status_code == 400:
            assert LOCK in answer["reason"], answer
            return LOCKED
        assert (response.status_code, answer["error"]) == (401, "not_authorised"), answer
        if answer["reason"] == "User not authorised to access virtual host":
            return NO_ENTRY
        assert REFUSAL in answer["reason"] or answer["reason"] in {"Not policymaker user", "Not administrator user"}
        return REFUSED

    async def end(self) -> None:
        """Do nothing: a request is all there is."""

    def see_users(self, number: int) -> Any:
        return "GET", "users", None

    def put_user(self, number: int) -> Any:
        return "PUT", f"users/user{number}", {"password": "x", "tags": ""}

    def delete_user(self, number: int) -> Any:
        return "DELETE", f"users/user{number}", None

    def put_permission(self, number: int) -> Any:
        return "PUT", f"permissions/%2F/user{number}", {"configure": ".*", "write": "", "read": ""}

    def delete_permission(self, number: int) -> Any:
        return "DELETE", f"permissions/%2F/user{number}", None

    def put_limit(self, number: int) -> Any:
        return "PUT", f"user-limits/user{number}/max-channels", {"value": number}

    def put_host(self, number: int) -> Any:
        return "PUT", f"vhosts/host{number}", {}

    def delete_host(self, number: int) -> Any:
        return "DELETE", f"vhosts/host{number}", None

    def declare_queue(self, number: int) -> Any:
        return "PUT", f"queues/%2F/new{number}", {}

    def declare_queue_with_target(self, number: int) -> Any:
        return "PUT", f"queues/%2F/new{number}", {"arguments": {"x-dead-letter-address": f"target{number}"}}

    def delete_queue(self, number: int) -> Any:
        return "DELETE", f"queues/%2F/queue{number}", None

    def purge_queue(self, number: int) -> Any:
        return "DELETE", f"queues/%2F/queue{number}/contents", None

    def bind_queue(self, number: int) -> Any:
        return "POST", f"bindings/%2F/e/exchange{number}/q/queue{number}", {"routing_key": "other"}

    def unbind_queue(self, number: int) -> Any:
        return "DELETE", f"bindings/%2F/e/exchange{number}/q/queue{number}/bound", None

    def declare_exchange(self, number: int) -> Any:
        return "PUT", f"exchanges/%2F/new{number}", {"type": "fanout"}

    def declare_exchange_with_target(self, number: int) -> Any:
        body = {"type": "fanout", "arguments": {"alternate-exchange": f"target{number}"}}
        return "PUT", f"exchanges/%2F/new{number}", body

    def delete_exchange(self, number: int) -> Any:
        return "DELETE", f"exchanges/%2F/exchange{number}", None

    def bind_exchange(self, number: int) -> Any:
        return "POST", f"bindings/%2F/e/exchange{number}/e/destination{number}", {"routing_key": "k"}

    def unbind_exchange(self, number: int) -> Any:
        return "DELETE", f"bindings/%2F/e/exchange{number}/e/destination{number}/bound", None

    def look_at_queue(self, number: int) -> Any:
        return "GET", f"queues/%2F/queue{number}", None

    def _publish(self, exchange: str, key: str) -> Any:
        body = {"routing_key": key, "payload": "x", "payload_encoding": "string", "properties": {}}
        return "POST", f"exchanges/%2F/{exchange}/publish", body

    def publish(self, number: int) -> Any:
        return self._publish(f"exchange{number}", "k")

    def publish_to_queue(self, number: int) -> Any:
        return self._publish("amq.default", f"queue{number}")

    def get(self, number: int) -> Any:
        body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        return "POST", f"queues/%2F/queue{number}/get", body

    def set_policy(self, number: int) -> Any:
        return "PUT", f"policies/%2F/new{number}", {"pattern": f"^none{number}$", "definition": {"ring-size": 1}}


class BulkTransferClient:
    """Bulk transfer, over a real connection: its errors have classes."""

    port = 0

    def __init__(self, broker: Broker, user: str, number: int) -> None:
        self.number = number
        self.user = user
        self.client = BulkClient(BulkUrl("127.0.0.1", type(self).port, user=user, password=user), retry_seconds=0)

    async def run(self, method: str) -> str:
        """Carry the operation out in a thread, and say what came of it."""
        try:
            await away(lambda: getattr(self, method)(self.number))
        except PermissionDeniedError as error:
            return NO_ENTRY if "may not use virtual host" in str(error) else REFUSED
        except RefusedError as error:
            return LOCKED if LOCK in str(error) else str(error)
        return ALLOWED

    async def end(self) -> None:
        """Close the connection, and end what leases were made."""
        await away(self._release)

    def _release(self) -> None:
        try:
            self.client.act(protocol.ReleaseLease(lease=f"lease{self.number}"))
        except BulkError:
            return
        finally:
            self.client.close()

    def _publish(self, **where: str) -> None:
        name = f"0-0-0-{uuid.uuid4().hex}"
        query = uuid.uuid4().hex
        rows = pa.record_batch({"body": ["a"]})
        self.client.put(protocol.PutStage(query=query, stage=name), rows.schema, [rows])
        self.client.act(protocol.CommitPublish(query=query, batch=0, stages=[name], mandatory=False, **where))

    def publish(self, number: int) -> None:
        self._publish(exchange=f"exchange{number}", routing_key="k")

    def publish_to_queue(self, number: int) -> None:
        self._publish(address=f"queue{number}")

    def consume(self, number: int) -> None:
        self.client.act(protocol.OpenLease(queue=f"queue{number}", lease=f"lease{number}", owner="o", fresh=True))

    def browse(self, number: int) -> None:
        self.client.act(protocol.OpenBrowse(queue=f"queue{number}"))

    def queue_status(self, number: int) -> None:
        self.client.act(protocol.QueueStatus(queue=f"queue{number}"))

    def lease_status(self, number: int) -> None:
        self.client.act(protocol.LeaseStatus(lease=f"there{number}"))
