"""Pipelines from a TOML file: sources, transforms, sinks, and the run that moves data between them."""
