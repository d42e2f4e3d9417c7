"""The queue: its commands, its state, and the steps of each command from arrival to return."""
