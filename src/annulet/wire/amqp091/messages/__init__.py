"""Messages: properties, headers, bodies, the view of the core, and conversion from and to other protocols."""
