"""The pages of a queue: rows are inserted, chosen, walked over and removed."""
