"""The common part of all resources: calls, routes, errors, bodies, query parameters, listings."""
