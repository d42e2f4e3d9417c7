"""The spill store: bodies that no message log holds, in temporary files."""
