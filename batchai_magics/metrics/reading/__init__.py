"""Bytes of a log become lines, and lines become records."""
