"""Field values, tables and arrays (§4.2.5.5), and numbers of the protocol."""
