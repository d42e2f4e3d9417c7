"""Records on disk: the commit pipeline, the history, effects of the core, definitions, ledger and events."""
