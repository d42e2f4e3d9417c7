"""Resources of clients: connections, their sessions and consumers, and leases."""
