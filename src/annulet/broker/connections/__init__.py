"""Connections and sessions of clients below any protocol: transport, access, sending, subscriptions."""
