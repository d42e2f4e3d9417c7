"""Definitions as a document: exported, compared with the broker's, and applied all or nothing."""
