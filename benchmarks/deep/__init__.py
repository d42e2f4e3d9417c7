"""The acceptance checks of deep backlogs at full size: ``python -m benchmarks.deep``."""
