"""AMQP 0-9-1 connections: the engine of ``wire.amqp091`` joined to sockets and to the core."""
