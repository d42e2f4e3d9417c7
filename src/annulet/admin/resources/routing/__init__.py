"""Resources of routing: exchanges, bindings and diverts."""
