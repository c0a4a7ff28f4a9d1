"""Results of commands, and their rendering as table, JSON or text."""
