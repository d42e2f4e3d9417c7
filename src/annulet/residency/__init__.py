"""The in-memory part of a deep backlog: rows instead of entries, the budget of bodies, and loading from disk."""
