"""The start of a broker: definitions, messages and remembered state come back."""
