"""Reading queues: leases, streams by sequence, snapshots."""
