"""Messages in delivery, and bodies that may leave memory: a million of either take little of it."""
