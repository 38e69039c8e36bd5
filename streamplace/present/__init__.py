"""What people read: tables, numbers, progress, errors; and arguments that subcommands share."""
