"""A virtual host: named nodes, publishing, dead letters, accounts, transactions."""
