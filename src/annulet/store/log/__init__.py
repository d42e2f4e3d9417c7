"""The message log as the broker uses it: windows, seals, checkpoints, recovery, reading, upkeep, space."""
