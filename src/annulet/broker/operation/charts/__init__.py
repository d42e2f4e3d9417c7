"""The history of figures for charts: bounded, and in memory only."""
