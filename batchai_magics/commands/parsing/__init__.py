"""Parsing, help and completion of command lines."""
