"""Commands against a running broker, over its HTTP interface."""
