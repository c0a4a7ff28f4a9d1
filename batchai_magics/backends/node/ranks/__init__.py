"""Programs that start and supervise ranks on a node; they import only the standard library and each other."""
