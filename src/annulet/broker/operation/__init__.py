"""Operators at run time: management operations, settings, backups."""
