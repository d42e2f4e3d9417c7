"""One policy of a queue in each module: retention, eviction, limits, expiry, delays, groups, fairness, dispatch."""
