"""Which pending message is next: ranks, and the orders they give."""
