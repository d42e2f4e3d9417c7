"""``/api/health/checks/…``, ``/api/aliveness-test`` and ``/api/healthchecks/node``: 200 when well, 503 with the reason.

All of them ask for credentials, as RabbitMQ's do; ``/health/live`` and ``/health/ready`` ask for none.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.figures.alarms import alarms
from annulet.admin.rabbitmq.framework.errors import not_found
from annulet.admin.rabbitmq.framework.naming import PROTOCOL_NAMES, node_name
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.responses import bad_request, json_response
from annulet.admin.resources.health import death_reason, unready_reason
from annulet.broker.operation.listeners import open_listeners
from annulet.broker.settings.validity import CertificateError, validity_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.rabbitmq.framework.call import Call

PORT_MAX: Final = 65535

DAYS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}
"""Units of the certificate check, in days."""

WITHIN_MAX: Final = 1000
"""Units ahead that the certificate check may look."""

OTHER_NAMES: Final = {
    "amqp091": "amqp",
    "amqp10": "amqp",
    "amqp1.0": "amqp",
    "amqps": "amqp/ssl",
    "stomps": "stomp/ssl",
}
"""Further names of protocols that RabbitMQ's tools use: both protocols of AMQP share a listener."""


def _ok(**more: Any) -> Response:
    return json_response({"status": "ok", **more})


def _failed(reason: str, **more: Any) -> Response:
    return json_response({"status": "failed", "reason": reason, **more}, 503)


async def check_alarms(call: Call) -> Response:
    """Fail while publishers are held back: memory, disk, spill store. The one node's alarms are all."""
    found = alarms(call.broker)
    if not found:
        return _ok()
    return _failed("There are alarms in effect", alarms=[{"node": node_name(), "resource": name} for name in found])


async def check_port(call: Call) -> Response:
    """Fail when nothing listens on a port."""
    text = call.names["port"]
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) <= PORT_MAX):
        raise bad_request("port", text, f"give a port from 1 to {PORT_MAX}")
    port = int(text)
    ports = sorted({endpoint.port for endpoint in open_listeners(call.broker).values()})
    return _ok(port=port) if port in ports else _failed("No active listener", missing=port, ports=ports)


async def check_protocol(call: Call) -> Response:
    """Fail when there is no listener of a protocol, by RabbitMQ's names or ours."""
    wanted = call.names["protocol"]
    names = set(open_listeners(call.broker))
    protocols = sorted({PROTOCOL_NAMES.get(name, name) for name in names})
    if wanted in names or OTHER_NAMES.get(wanted, wanted) in protocols:
        return _ok(protocol=wanted)
    return _failed("No active listener", missing=wanted, protocols=protocols)


async def check_hosts(call: Call) -> Response:
    """All virtual hosts of a running broker run."""
    reason = death_reason(call.broker)
    if not reason:
        return _ok()
    return _failed(reason, **{"virtual-hosts": sorted(call.broker.hosts)})


async def check_nothing_critical(_call: Call) -> Response:
    """Return that the node may be stopped: there is no other that lacks it."""
    return _ok(reason="single node cluster")


async def check_ready(call: Call) -> Response:
    """Fail while clients may not connect, or only a restart helps."""
    reason = unready_reason(call.broker)
    return _failed(reason) if reason else _ok()


async def check_certificates(call: Call) -> Response:
    """Fail when a certificate of a listener ends within so many days, weeks, months or years."""
    text, unit = call.names["within"], call.names["unit"]
    if unit not in DAYS:
        raise bad_request("unit", unit, f"give one of {', '.join(DAYS)}")
    if not (text.isascii() and text.isdigit() and len(text) < 5 and int(text) <= WITHIN_MAX):
        raise bad_request("within", text, f"give an integer from 0 to {WITHIN_MAX}")
    until = datetime.now(UTC) + timedelta(days=int(text) * DAYS[unit])
    expiring = []
    addresses = open_listeners(call.broker)
    for name, listener in sorted(call.broker.tls.listeners.items()):
        if name not in addresses:
            continue
        certificate = listener.settings.certificate
        try:
            ends = validity_of(certificate.read_text(errors="replace"))[1]
        except (OSError, CertificateError) as error:
            return _failed(f"cannot tell how long the certificate of {name} is valid: {error}")
        if ends <= until:
            expiring.append(
                {
                    "node": node_name(),
                    "protocol": PROTOCOL_NAMES.get(name, name),
                    "port": addresses[name].port,
                    "interface": addresses[name].host,
                    "certfile": str(certificate),
                    "certfile_expires_on": ends.isoformat(),
                }
            )
    return _failed("Certificates expiring", expired=expiring) if expiring else _ok()


async def test_aliveness(call: Call) -> Response:
    """Return whether a virtual host works: the broker serves clients and can write.

    RabbitMQ sends itself a message through a queue that it leaves behind; nothing is left behind here.
    """
    call.host()
    return await check_ready(call)


async def check_node(call: Call) -> Response:
    """Fail when clients may not connect, or publishers are held back."""
    node = call.names.get("node", node_name())
    if node != node_name():
        raise not_found("node", node)
    reason = unready_reason(call.broker)
    found = alarms(call.broker)
    if reason or found:
        return _failed(reason or f"alarms in effect: {', '.join(found)}")
    return _ok()


ROUTES: Final = (
    Route("health/checks/alarms", {"GET": check_alarms}),
    Route("health/checks/local-alarms", {"GET": check_alarms}),
    Route("health/checks/certificate-expiration/{within}/{unit}", {"GET": check_certificates}),
    Route("health/checks/port-listener/{port}", {"GET": check_port}),
    Route("health/checks/protocol-listener/{protocol}", {"GET": check_protocol}),
    Route("health/checks/virtual-hosts", {"GET": check_hosts}),
    Route("health/checks/node-is-mirror-sync-critical", {"GET": check_nothing_critical}),
    Route("health/checks/node-is-quorum-critical", {"GET": check_nothing_critical}),
    Route("health/checks/ready", {"GET": check_ready}),
    Route("aliveness-test/{vhost}", {"GET": test_aliveness}),
    Route("healthchecks/node", {"GET": check_node}),
    Route("healthchecks/node/{node}", {"GET": check_node}),
)
