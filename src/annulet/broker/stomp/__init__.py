"""STOMP connections: the engine of ``wire.stomp`` joined to sockets and to the core."""
