"""What is made ready before a job: set-up of its nodes, file servers that it mounts."""
