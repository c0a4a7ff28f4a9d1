"""Sweeps: many trials of one cell, as ordinary jobs of one group."""
