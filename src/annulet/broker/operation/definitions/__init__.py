"""Definitions as a document: exported, compared with what is there, and applied all or nothing."""
