"""Definitions by peers and operators of queues, consumers and addresses: names, values, contradictions, defaults."""
