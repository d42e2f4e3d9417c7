"""Data directories of stopped brokers, and backups of running ones."""
