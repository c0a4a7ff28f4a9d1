"""The programs that start and watch ranks on a node, with all that they import: the standard library."""
