"""The words of a command line: the tree of commands, their options, help and completion."""
