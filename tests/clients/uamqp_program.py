"""Run by Debian's Python: Azure's client uamqp sends three messages to a queue over TLS and receives them."""

from __future__ import annotations

import json
import sys
from typing import Any

import uamqp
from uamqp import authentication

port, authority, queue = int(sys.argv[1]), sys.argv[2], sys.argv[3]
address = f"amqps://localhost:{port}/{queue}"


def login() -> Any:
    """Return what logs in as guest."""
    return authentication.SASLPlain("localhost", "guest", "guest", port=port, verify=authority)


sender = uamqp.SendClient(address, auth=login())
for number in range(3):
    sender.queue_message(uamqp.Message(b"%d" % number))
states = [state.name for state in sender.send_all_messages()]
receiver = uamqp.ReceiveClient(address, auth=login(), prefetch=10, timeout=5000)
received = []
while len(received) < 3:
    for message in receiver.receive_message_batch(max_batch_size=10, timeout=5000):
        received.append(b"".join(message.get_data()).decode())
        message.accept()
receiver.close()
json.dump({"states": states, "received": received}, sys.stdout)
