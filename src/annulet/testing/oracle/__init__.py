"""One queue written for clarity: a list and the rules of the specification. The core is compared with it step by step.

Shares no code with the core but the settings. Every question is answered by scanning a list, so cost is O(n) and more.
Times are milliseconds, sizes body bytes, -1 means no limit. Start at :mod:`annulet.testing.oracle.queue`.
"""
