"""Resources of what happened: events."""
