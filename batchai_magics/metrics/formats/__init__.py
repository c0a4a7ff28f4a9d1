"""The table of known log formats, one file per program."""
