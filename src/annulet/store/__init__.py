"""The durable store: the message log, its twin in memory, the catalogue, and the lock of the data directory."""
