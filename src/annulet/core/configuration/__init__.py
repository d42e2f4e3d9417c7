"""What peers and operators may say of queues, consumers and addresses: names, values, contradictions, defaults."""
