"""Files and bytes: the few operations on files, marks, columns of numbers, errors, the lock of a data directory."""
