"""Basics of every room of the core: settings, errors, reasons, typed values and times. No queue, no message."""
