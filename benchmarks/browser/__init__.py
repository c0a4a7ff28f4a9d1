"""Lines in a real browser, while they are written."""
