"""Bulk transfer over Arrow Flight: durable leases to read queues exactly once, staged publishes to write them so."""
