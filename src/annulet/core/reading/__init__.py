"""Reading without taking: browsers, consumers of non-destructive queues, and entries found by sequence."""
