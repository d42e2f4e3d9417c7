"""Bodies in memory: the budget, candidates that may leave it, the spill store, and the accounts of both."""
