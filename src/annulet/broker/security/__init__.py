"""Authentication and permissions of users, SASL, admission of connections, TLS."""
