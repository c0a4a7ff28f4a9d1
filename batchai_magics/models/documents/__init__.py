"""Spec files: JSON or YAML, legacy names, all problems reported at once."""
