"""Messages (part 3): sections, the view of the core, and conversion from and to other protocols."""
