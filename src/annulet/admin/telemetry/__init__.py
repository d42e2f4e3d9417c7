"""Push of metrics and spans to a collector of OpenTelemetry."""
