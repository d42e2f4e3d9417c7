"""The SQLite files: the catalogue of definitions, the history, and what both have in common."""
