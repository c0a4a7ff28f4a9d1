"""The rows of the command table, one file a noun: a group's title, and its commands."""
