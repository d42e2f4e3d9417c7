"""The type system (OASIS AMQP 1.0 part 1): values, their formats, and composite types."""
