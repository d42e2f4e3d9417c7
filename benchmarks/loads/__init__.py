"""Load generators of protocols for which there is none in C: raw sockets, frames prepared in batches."""
