"""AMQP 0-9-1, 0-9 and 0-8: codec and connection engine. No sockets."""
