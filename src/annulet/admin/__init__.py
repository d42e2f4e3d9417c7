"""The HTTP side of the broker: health, metrics and JSON resources under ``/api/v1``."""
