"""Texts looked for in headers of stored messages, by a process of its own."""
