"""selector: the JMS selector grammar, compiled to predicates over named values. Knows neither messages nor queues."""
