"""The HTTP port: connections, their bounds, WebSockets, and which requests are local."""
