"""What the broker says of itself: logs and protocol traces."""
