"""The messaging model: queues, routing, virtual hosts and their management. No I/O, no clock, no threads."""
