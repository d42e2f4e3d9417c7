"""What every room of the core may use: settings, errors, reasons, typed values and times. No queue, no message."""
