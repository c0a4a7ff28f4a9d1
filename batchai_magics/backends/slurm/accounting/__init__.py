"""What the accounting of a cluster knows of jobs that its controller has forgotten."""
