"""selector: the JMS selector grammar, compiled to predicates over named values, independent of messages and queues."""
