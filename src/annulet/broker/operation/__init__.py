"""What operators do while the broker runs: management operations, settings, backups."""
