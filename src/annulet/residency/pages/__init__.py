"""The pages of a queue: what is put among them, chosen, walked over and taken away."""
