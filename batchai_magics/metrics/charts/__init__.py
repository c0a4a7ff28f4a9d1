"""Runs as matplotlib figures."""
