"""The broker: event loop, connections of every protocol, security, durability and recovery around the core."""
