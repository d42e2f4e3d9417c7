"""Codecs and connection engines, a package for each protocol: bytes in, calls out, no sockets."""
