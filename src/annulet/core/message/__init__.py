"""Messages: their bytes and facts, what selectors call their parts, and their content apart from any protocol."""
