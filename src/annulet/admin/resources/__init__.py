"""One resource of the HTTP API in each module."""
