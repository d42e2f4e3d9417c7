"""What the resources share: calls, routes, errors, bodies, query parameters, listings."""
