"""Writing queues: rows staged and published once."""
