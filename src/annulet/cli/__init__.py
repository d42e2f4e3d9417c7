"""The ``annulet`` command: one module per subcommand."""
