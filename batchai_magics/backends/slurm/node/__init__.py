"""Programs that run on the nodes of a job. Standard library only: they are copied to its home."""
