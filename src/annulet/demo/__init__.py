"""The flights demonstration: real departures through a real broker and Spark, with every message accounted for."""
