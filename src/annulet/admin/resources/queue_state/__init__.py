"""Resources below one queue: its groups and their owners, its fair keys, its kept keys."""
