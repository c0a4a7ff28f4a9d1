"""Splits the bytes of a log into lines and parses lines into records."""
