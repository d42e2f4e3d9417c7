"""What of a deep backlog is in memory: rows instead of entries, the budget of bodies, and the way back from disk."""
