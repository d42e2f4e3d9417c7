"""From a node and a routing key to queues: exchanges, addresses, bindings, diverts, and the graph they make."""
