"""The connection engine of a server: sessions, links, transfers."""
