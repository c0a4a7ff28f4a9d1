"""What a command gives, and how it reads as a table, JSON or text."""
