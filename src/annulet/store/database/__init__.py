"""The SQLite files: the catalogue of definitions, the history, and code for both."""
