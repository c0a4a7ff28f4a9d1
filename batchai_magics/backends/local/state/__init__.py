"""What the local backend knows, in one SQLite file."""
