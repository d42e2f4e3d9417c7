"""AMQP 1.0 clients: the engine of ``wire/amqp10`` joined to sockets, queues and the message log."""
