"""Messages: their bytes and facts, the names of their parts in selectors, and their content apart from any protocol."""
