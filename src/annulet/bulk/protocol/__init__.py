"""The protocol of bulk transfer: requests, addresses, tokens, errors, the columns of rows."""
