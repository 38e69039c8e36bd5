"""The command line: a module a subcommand, which offers ``add_arguments`` and ``run``."""
