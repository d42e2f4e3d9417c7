"""A virtual host: all that clients can name, publishing into it, dead letters, accounts, transactions."""
