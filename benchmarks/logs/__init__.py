"""Logs: what it costs to write, read and follow them."""
