"""Frames and performatives (parts 2 and 5): what they hold, and how they become bytes."""
