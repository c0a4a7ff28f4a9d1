"""Misfortune of all kinds, and whether every promise is kept."""
