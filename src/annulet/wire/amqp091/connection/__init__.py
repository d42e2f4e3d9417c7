"""The connection engine of a server: methods, channels, versions."""
