"""Command specs: one row per command with its words, options and handler."""
