"""Orders of deep queues: the middle of the backlog is rows on disk, the ends are entries in memory."""
