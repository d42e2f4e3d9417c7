"""AMQP 1.0 (ISO/IEC 19464): codec and connection engine. No sockets."""
