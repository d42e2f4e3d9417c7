"""Frames and performatives (parts 2 and 5): their fields and their encoding."""
