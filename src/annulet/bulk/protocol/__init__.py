"""What client and broker say to each other: requests, addresses, tokens, errors, the columns of rows."""
