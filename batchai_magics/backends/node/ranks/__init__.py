"""The programs that start and supervise ranks on a node; they import the standard library and each other."""
