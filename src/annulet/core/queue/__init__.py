"""The queue: its commands, its state, and what each command does from arrival to return."""
