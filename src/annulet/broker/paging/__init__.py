"""Deep backlogs in the broker: the pager, threads and processes that read and spill, the memory alarm."""
