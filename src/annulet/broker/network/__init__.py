"""Sockets: listening, hand-shakes, the end of a connection, and whether the peer is there."""
