"""The formats that are known: one table, a file a program."""
