"""Sends or takes a message with python3-amqplib over TLS. Runs in the interpreter that has the package of Debian.

Arguments: host and port, the file of the authority, queue; and a body to send, without which one message is taken.
"""

from __future__ import annotations

import ssl
import sys

from amqplib import client_0_8


def main() -> None:
    """Do it and print the body that was taken."""
    address, authority, queue, *bodies = sys.argv[1:]
    trust = {"ca_certs": authority, "cert_reqs": ssl.CERT_REQUIRED}
    connection = client_0_8.Connection(address, ssl=trust)
    channel = connection.channel()
    if bodies:
        channel.tx_select()
        channel.basic_publish(client_0_8.Message(bodies[0], delivery_mode=2), routing_key=queue)
        channel.tx_commit()
    else:
        sys.stdout.write(channel.basic_get(queue, no_ack=True).body)
    connection.close()


if __name__ == "__main__":
    main()
